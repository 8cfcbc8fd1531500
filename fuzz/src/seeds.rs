//! First inputs: small valid files of every format, written here and not by the code that reads them, and bytes for
//! the solvers.

use std::io::{Cursor, Write};

use earthmover_ssl::allocation::{Bounds, CostStorage, LabelAllocator};
use earthmover_testkit::Rng;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};

use crate::bundle;

type Seeds = Vec<(String, Vec<u8>)>;

fn named(name: &str, bytes: Vec<u8>) -> (String, Vec<u8>) {
    (name.to_owned(), bytes)
}

fn counting(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 37 % 251) as u8).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn npy_file(version: u8, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let length = header.len() as u32;
    let mut file = b"\x93NUMPY".to_vec();
    file.extend([version, 0]);
    file.extend(&length.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
    file.extend(header.bytes());
    file.extend(data);
    file
}

/// Sizes whose product is zero, and overflows on the way there.
const VAST: &str = "(0, 3, 1099511627776, 1099511627776)";

/// Arrays of every type, order and version.
#[must_use]
pub fn npy() -> Seeds {
    let halves: Vec<u8> = (0..6)
        .flat_map(|i| (f64::from(i) / 2.0).to_le_bytes())
        .collect();
    let plain = npy_file(1, "<f8", false, "(2, 3)", &halves);
    let mut all = vec![
        named("f8-fortran", npy_file(2, "<f8", true, "(2, 3)", &halves)),
        named("f8-gz", gzip(&plain)),
        named("f8", plain),
        named("scalar", npy_file(3, ">f4", false, "()", &[63, 128, 0, 0])),
        named("empty", npy_file(1, "|u1", true, "(0, 7, 9)", &[])),
        named("cube", npy_file(1, "|u1", true, "(2, 3, 4)", &counting(24))),
        named("vast", npy_file(1, "|u1", true, VAST, &[])),
        named("text", npy_file(1, "<U4", false, "(1,)", &counting(16))),
    ];
    for (kind, width) in ["b1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f4"]
        .into_iter()
        .zip([1, 1, 2, 4, 8, 2, 4, 8, 4])
    {
        let file = npy_file(1, &format!(">{kind}"), false, "(3L,)", &counting(3 * width));
        all.push(named(kind, file));
    }
    all
}

/// Examples with their labels.
#[must_use]
pub fn arrays() -> Seeds {
    let labels = npy_file(1, "|u1", false, "(2,)", &[0, 1]);
    let wide: Vec<u8> = [3i64, 0].iter().flat_map(|l| l.to_le_bytes()).collect();
    let long_labels = npy_file(1, "<i8", false, "(2, 1)", &wide);
    let features: Vec<u8> = (0..6u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    let table = npy_file(1, "<f4", false, "(2, 3)", &features);
    let planes = npy_file(1, "|u1", false, "(2, 3, 4, 5)", &counting(120));
    let grey = npy_file(1, "|u1", true, "(2, 4, 5)", &counting(40));
    let colour = npy_file(1, "|u1", false, "(2, 4, 5, 3)", &counting(120));
    let none = npy_file(1, "|u1", false, "(0, 3, 4, 5)", &[]);
    let nobody = npy_file(1, "|u1", false, "(0,)", &[]);
    let vast = npy_file(1, "|u1", false, VAST, &[]);
    vec![
        named("vast", bundle(&[&vast, &nobody])),
        named("table", bundle(&[&table, &long_labels])),
        named("planes", bundle(&[&planes, &labels])),
        named("grey", bundle(&[&grey, &labels])),
        named("colour", bundle(&[&colour, &gzip(&labels)])),
        named("none", bundle(&[&none, &nobody])),
    ]
}

fn mat_element(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if data.len() <= 4 && !data.is_empty() {
        bytes.extend((kind | (data.len() as u32) << 16).to_le_bytes());
        bytes.extend(data);
        bytes.resize(8, 0);
        return bytes;
    }
    bytes.extend(kind.to_le_bytes());
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn mat_array(name: &str, class: u32, dims: &[u32], kind: u32, data: &[u8]) -> Vec<u8> {
    let flags: Vec<u8> = [class, 0].iter().flat_map(|f| f.to_le_bytes()).collect();
    let dims: Vec<u8> = dims.iter().flat_map(|d| d.to_le_bytes()).collect();
    let parts = [
        mat_element(6, &flags),
        mat_element(5, &dims),
        mat_element(1, name.as_bytes()),
        mat_element(kind, data),
    ];
    mat_element(14, &parts.concat())
}

fn mat_packed(element: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(element).expect("memory");
    let data = encoder.finish().expect("memory");
    let mut bytes = 15u32.to_le_bytes().to_vec();
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes
}

fn mat_file(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![b' '; 124];
    file.extend([0, 1, b'I', b'M']);
    file.extend(elements.concat());
    file
}

/// MATLAB arrays of every type, packed and not.
#[must_use]
pub fn mat() -> Seeds {
    let kinds = [
        (1, 1),
        (2, 1),
        (3, 2),
        (4, 2),
        (5, 4),
        (6, 4),
        (7, 4),
        (9, 8),
        (12, 8),
        (13, 8),
    ];
    let arrays: Vec<Vec<u8>> = kinds
        .iter()
        .map(|&(kind, width)| mat_array("x", 6, &[3, 1], kind, &counting(3 * width)))
        .collect();
    let small = mat_array("y", 9, &[2, 2], 2, &counting(4));
    let packed: Vec<Vec<u8>> = arrays.iter().map(|a| mat_packed(a)).collect();
    let cells = mat_array("cells", 1, &[1, 1], 2, &counting(9));
    vec![
        named("types", mat_file(&arrays)),
        named("packed", mat_file(&packed)),
        named("small", mat_file(std::slice::from_ref(&small))),
        named("gz", gzip(&mat_file(&[small, cells]))),
        named("header", mat_file(&[])),
    ]
}

/// Cropped digits.
#[must_use]
pub fn svhn() -> Seeds {
    let x = mat_array("X", 9, &[32, 32, 3, 2], 2, &counting(6144));
    let none = mat_array("X", 9, &[32, 32, 3, 0], 2, &[]);
    let y = mat_array("y", 9, &[2, 1], 2, &[10, 3]);
    let nobody = mat_array("y", 9, &[0, 1], 2, &[]);
    let doubles: Vec<u8> = [1.0f64, 10.0]
        .iter()
        .flat_map(|l| l.to_le_bytes())
        .collect();
    let wide = mat_array("y", 6, &[2, 1], 9, &doubles);
    vec![
        named("packed", mat_file(&[mat_packed(&x), mat_packed(&y)])),
        named("doubles", gzip(&mat_file(&[wide, x]))),
        named("none", mat_file(&[none, nobody])),
    ]
}

fn idx_file(sizes: &[u32]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, sizes.len() as u8];
    file.extend(sizes.iter().flat_map(|s| s.to_be_bytes()));
    file.extend(counting(sizes.iter().product::<u32>() as usize));
    file
}

/// Images with their labels.
#[must_use]
pub fn idx() -> Seeds {
    let (images, labels) = (idx_file(&[3, 4, 5]), idx_file(&[3]));
    vec![
        named("plain", bundle(&[&images, &labels])),
        named("gz", bundle(&[&gzip(&images), &gzip(&labels)])),
        named("none", bundle(&[&idx_file(&[0, 4, 5]), &idx_file(&[0])])),
        named("flat", bundle(&[&idx_file(&[2, 0, 5]), &idx_file(&[2])])),
    ]
}

/// One record of each kind, and two gzipped.
#[must_use]
pub fn cifar() -> Seeds {
    let ten = [&[7][..], &counting(3072)].concat();
    let hundred = [&[3, 99][..], &counting(3072)].concat();
    vec![
        named("ten-gz", gzip(&[&ten[..], &ten].concat())),
        named("hundred", hundred),
        named("ten", ten),
    ]
}

/// Small pictures, grey and in colour.
#[must_use]
pub fn images() -> Seeds {
    let colour = RgbImage::from_fn(5, 4, |x, y| Rgb([x as u8 * 40, y as u8 * 60, 128]));
    let colour = DynamicImage::ImageRgb8(colour);
    let encoded = |image: &DynamicImage, format| {
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).expect("memory");
        bytes.into_inner()
    };
    let grey = DynamicImage::ImageLuma8(colour.to_luma8());
    let deep = DynamicImage::ImageRgba16(colour.to_rgba16());
    let (png, jpeg) = (ImageFormat::Png, ImageFormat::Jpeg);
    vec![
        named(
            "colour",
            bundle(&[&encoded(&colour, png), &encoded(&colour, jpeg)]),
        ),
        named(
            "grey",
            bundle(&[&encoded(&grey, png), &encoded(&grey, jpeg)]),
        ),
        named(
            "deep",
            bundle(&[&encoded(&deep, png), &encoded(&grey, png)]),
        ),
    ]
}

/// Allocators new and in the middle of their work, of every storage.
#[must_use]
pub fn allocator() -> Seeds {
    let mut all = Vec::new();
    for (name, storage) in [
        ("single", CostStorage::Single),
        ("half", CostStorage::Half),
        ("bfloat", CostStorage::Bfloat),
    ] {
        let bounds = Bounds::given(&[0.5, 0.3, 0.4]).expect("shares");
        let options = LabelAllocator::options(6, 3)
            .bounds(bounds)
            .storage(storage);
        let options = options.max_iterations(100).row_bounds(vec![0.9; 6]);
        let mut allocator = options.build().expect("an allocator");
        let save = |allocator: &LabelAllocator| {
            let mut bytes = Vec::new();
            allocator.save(&mut bytes).expect("memory");
            bytes
        };
        all.push(named(&format!("{name}-new"), save(&allocator)));
        let p = [0.7f32, 0.2, 0.1, 0.1, 0.6, 0.3, 0.05, 0.05, 0.9];
        allocator
            .observe(&[4, 0, 2], &p.map(f32::ln))
            .expect("probabilities");
        for rho in [0.4, 0.8] {
            let _ = allocator.allocate(rho).expect("a share");
        }
        all.push(named(&format!("{name}-old"), save(&allocator)));
    }
    let plain = LabelAllocator::options(3, 2)
        .max_iterations(50)
        .build()
        .expect("an allocator");
    let mut bytes = Vec::new();
    plain.save(&mut bytes).expect("memory");
    all.push(named("plain", bytes));
    all
}

/// The same as text.
#[must_use]
pub fn allocator_json() -> Seeds {
    allocator()
        .iter()
        .map(|(name, bytes)| {
            let allocator = LabelAllocator::load(bytes.as_slice()).expect("a seed");
            named(name, serde_json::to_vec(&allocator).expect("numbers"))
        })
        .collect()
}

/// Random bytes: every one of them is a question.
#[must_use]
pub fn solver() -> Seeds {
    let mut draw = Rng(1);
    (0..30)
        .map(|i| {
            let mut bytes = draw.bytes(40 + 12 * i);
            // Every solver, shape by shape, with numbers that have an answer.
            bytes[2] = (i % 6) as u8 | if i % 4 == 3 { 0x80 } else { 0 };
            bytes[4] = (i % 12) as u8;
            named(&format!("random-{i:02}"), bytes)
        })
        .collect()
}
