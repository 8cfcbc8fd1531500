//! A contact sheet of every augmentation: one row per operation, one column per level.
//!
//! ```text
//! cargo run --release -p earthmover-ssl --example augmentations
//! cargo run --release -p earthmover-ssl --example augmentations -- --dataset cifar10 --data <folder> --index 7
//! ```
//!
//! Signed operations show negative levels on the right. Below them are weak and strong views as training
//! sees them, the hole of the strong ones in the mean colour. With `--speed`, counts views per second instead.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use earthmover_ssl::augment::{Batcher, Canvas, ImagePolicy, Operation, Policy, Sign, View};
use earthmover_ssl::data::{Dataset, Kind, Sampler, Shape};
use image::{Rgb, RgbImage};

/// Draws every augmentation of an image as a contact sheet.
#[derive(Parser)]
struct Arguments {
    /// digits, mnist, fashion-mnist, cifar10, cifar100, svhn, folder or arrays
    #[arg(long, default_value = "digits")]
    dataset: Kind,
    /// Where the set is; digits need nothing
    #[arg(long, default_value = ".")]
    data: PathBuf,
    /// Which training image
    #[arg(long, default_value_t = 3)]
    index: usize,
    /// Seed of the weak and strong views
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Count views per second instead of drawing
    #[arg(long)]
    speed: bool,
    /// The picture to write
    #[arg(long, default_value = "target/augmentations.png")]
    output: PathBuf,
}

const LEVELS: [u32; 5] = [1, 3, 5, 7, 9];
const COLUMNS: u32 = 10;
const CELL: u32 = 96;
const GAP: u32 = 8;
const TITLE: u32 = 190;
const HEAD: u32 = 28;
const PAPER: Rgb<u8> = Rgb([250, 250, 247]);
const INK: Rgb<u8> = Rgb([40, 44, 52]);
const FRAME: Rgb<u8> = Rgb([200, 203, 208]);

/// The sheet being drawn.
struct Sheet {
    picture: RgbImage,
}

impl Sheet {
    fn new(rows: u32) -> Self {
        let width = TITLE + COLUMNS * (CELL + GAP) + GAP;
        let height = HEAD + rows * (CELL + GAP) + GAP;
        Self {
            picture: RgbImage::from_pixel(width, height, PAPER),
        }
    }

    fn origin(column: u32, row: u32) -> (u32, u32) {
        (
            TITLE + column * (CELL + GAP),
            HEAD + GAP + row * (CELL + GAP),
        )
    }

    /// An interleaved image, enlarged to the cell without smoothing, and framed.
    fn image(&mut self, column: u32, row: u32, pixels: &[u8], shape: (usize, usize, usize)) {
        let (height, width, channels) = shape;
        let (left, top) = Self::origin(column, row);
        let side = height.max(width) as u32;
        let (w, h) = (width as u32 * CELL / side, height as u32 * CELL / side);
        for y in 0..h {
            for x in 0..w {
                let from = (y as usize * height / h as usize * width
                    + x as usize * width / w as usize)
                    * channels;
                let colour = if channels == 3 {
                    Rgb([pixels[from], pixels[from + 1], pixels[from + 2]])
                } else {
                    Rgb([pixels[from]; 3])
                };
                self.picture.put_pixel(left + x, top + y, colour);
            }
        }
        for x in left - 1..=left + w {
            self.picture.put_pixel(x, top - 1, FRAME);
            self.picture.put_pixel(x, top + h, FRAME);
        }
        for y in top - 1..=top + h {
            self.picture.put_pixel(left - 1, y, FRAME);
            self.picture.put_pixel(left + w, y, FRAME);
        }
    }

    fn text(&mut self, left: u32, top: u32, text: &str) {
        const SCALE: u32 = 3;
        for (i, letter) in text.chars().enumerate() {
            for (y, bits) in glyph(letter).into_iter().enumerate() {
                for x in (0..3).filter(|x| bits & (4 >> x) != 0) {
                    for d in 0..SCALE * SCALE {
                        let px = left + (i as u32 * 4 + x) * SCALE + d % SCALE;
                        let py = top + y as u32 * SCALE + d / SCALE;
                        if px < self.picture.width() && py < self.picture.height() {
                            self.picture.put_pixel(px, py, INK);
                        }
                    }
                }
            }
        }
    }

    fn title(&mut self, row: u32, text: &str) {
        let (_, top) = Self::origin(0, row);
        self.text(GAP * 2, top + CELL / 2 - 8, text);
    }
}

/// Three columns by five rows, a row per number, the leftmost column the 4.
#[rustfmt::skip]
fn glyph(letter: char) -> [u8; 5] {
    match letter.to_ascii_lowercase() {
        'a' => [2, 5, 7, 5, 5], 'b' => [6, 5, 6, 5, 6], 'c' => [3, 4, 4, 4, 3], 'd' => [6, 5, 5, 5, 6],
        'e' => [7, 4, 6, 4, 7], 'f' => [7, 4, 6, 4, 4], 'g' => [3, 4, 5, 5, 3], 'h' => [5, 5, 7, 5, 5],
        'i' => [7, 2, 2, 2, 7], 'j' => [1, 1, 1, 5, 2], 'k' => [5, 5, 6, 5, 5], 'l' => [4, 4, 4, 4, 7],
        'm' => [5, 7, 7, 5, 5], 'n' => [6, 5, 5, 5, 5], 'o' => [2, 5, 5, 5, 2], 'p' => [6, 5, 6, 4, 4],
        'q' => [2, 5, 5, 6, 3], 'r' => [6, 5, 6, 5, 5], 's' => [3, 4, 2, 1, 6], 't' => [7, 2, 2, 2, 2],
        'u' => [5, 5, 5, 5, 7], 'v' => [5, 5, 5, 5, 2], 'w' => [5, 5, 7, 7, 5], 'x' => [5, 5, 2, 5, 5],
        'y' => [5, 5, 2, 2, 2], 'z' => [7, 1, 2, 4, 7], '0' => [7, 5, 5, 5, 7], '1' => [2, 6, 2, 2, 7],
        '2' => [6, 1, 2, 4, 7], '3' => [6, 1, 2, 1, 6], '4' => [5, 5, 7, 1, 1], '5' => [7, 4, 6, 1, 6],
        '6' => [3, 4, 7, 5, 7], '7' => [7, 1, 2, 2, 2], '8' => [7, 5, 7, 5, 7], '9' => [7, 5, 7, 1, 6],
        '+' => [0, 2, 7, 2, 0], '-' => [0, 0, 7, 0, 0], _ => [0; 5],
    }
}

/// Normalised planes back to interleaved bytes.
fn bytes(planes: &[f32], set: &Dataset, channels: usize) -> Vec<u8> {
    let plane = planes.len() / channels;
    (0..planes.len())
        .map(|i| {
            let (c, at) = (i % channels, i / channels);
            let value =
                planes[c * plane + at] * set.normalisation.std[c] + set.normalisation.mean[c];
            (value * 255.0).round().clamp(0.0, 255.0) as u8
        })
        .collect()
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let set = arguments.dataset.load(&arguments.data)?;
    let (
        Shape::Image {
            height,
            width,
            channels,
        },
        Policy::Image(policy),
    ) = (set.shape(), Policy::preset(arguments.dataset, set.shape()))
    else {
        return Err("the set holds rows of features, which cannot be drawn".into());
    };
    if arguments.speed {
        return speed(&set, policy);
    }
    let original = set
        .train
        .image(arguments.index)
        .ok_or("no training image has this index")?;
    let shape = (height, width, channels);
    let rows = Operation::ALL.len() as u32;
    let mut sheet = Sheet::new(rows + 4);
    operations(&mut sheet, original, shape, &policy)?;

    let batcher = Batcher::new(set.shape(), &set.normalisation, Policy::Image(policy))?;
    let repeated = [arguments.index; 2 * COLUMNS as usize];
    for (view, name, first) in [
        (View::Weak, "weak", rows),
        (View::Strong, "strong", rows + 2),
    ] {
        let batch = batcher.batch(&set.train, &repeated, view, arguments.seed, 0)?;
        for (i, planes) in batch.chunks_exact(set.shape().size()).enumerate() {
            let (column, row) = (i as u32 % COLUMNS, first + i as u32 / COLUMNS);
            sheet.title(row, name);
            sheet.image(column, row, &bytes(planes, &set, channels), shape);
        }
    }
    if let Some(folder) = arguments.output.parent() {
        std::fs::create_dir_all(folder)?;
    }
    sheet.picture.save(&arguments.output)?;
    println!(
        "{}: {} of {}, {} operations at levels {LEVELS:?}, then weak and strong views",
        arguments.output.display(),
        set.classes[set.train.labels()[arguments.index] as usize],
        set.name,
        Operation::ALL.len(),
    );
    Ok(())
}

/// Views per second in batches of 448 on all threads of the pool, the best of several runs.
fn speed(set: &Dataset, policy: ImagePolicy) -> Result<(), Box<dyn Error>> {
    let batcher = Batcher::new(set.shape(), &set.normalisation, Policy::Image(policy))?;
    let sampler = Sampler::new(0, (0..set.train.len()).collect());
    let mut batch = vec![0.0; 448 * set.shape().size()];
    for view in [View::Plain, View::Weak, View::Strong] {
        let mut best = 0.0f64;
        for run in 0..10u64 {
            let start = Instant::now();
            for step in run * 20..(run + 1) * 20 {
                batcher.fill(
                    &set.train,
                    &sampler.batch(step, 448),
                    view,
                    0,
                    step,
                    &mut batch,
                )?;
            }
            best = best.max(20.0 * 448.0 / start.elapsed().as_secs_f64());
        }
        println!(
            "{view:?}: {best:.0} images/s on {} threads",
            rayon::current_num_threads()
        );
    }
    Ok(())
}

fn operations(
    sheet: &mut Sheet,
    original: &[u8],
    shape: (usize, usize, usize),
    policy: &ImagePolicy,
) -> Result<(), Box<dyn Error>> {
    for (column, level) in LEVELS.into_iter().enumerate() {
        let centre = |column: u32| Sheet::origin(column, 0).0 + CELL / 2;
        sheet.text(centre(column as u32) - 10, GAP, &format!("+{level}"));
        sheet.text(
            centre(column as u32 + LEVELS.len() as u32) - 10,
            GAP,
            &format!("-{level}"),
        );
    }
    let mut canvas = Canvas::new(shape.0, shape.1, shape.2)?;
    for (row, operation) in Operation::ALL.into_iter().enumerate() {
        let row = row as u32;
        sheet.title(row, &operation.name().replace('_', " "));
        let levels: &[u32] = if operation.has_level() {
            &LEVELS
        } else {
            &LEVELS[..1]
        };
        let signs: &[Sign] = if operation.is_signed() {
            &[Sign::Plus, Sign::Minus]
        } else {
            &[Sign::Plus]
        };
        for (half, &sign) in signs.iter().enumerate() {
            for (column, &level) in levels.iter().enumerate() {
                canvas.load(original)?;
                operation.apply(&mut canvas, level, sign, &policy.rand_augment.magnitudes);
                let column = (half * LEVELS.len() + column) as u32;
                sheet.image(column, row, canvas.pixels(), shape);
            }
        }
    }
    Ok(())
}
