//! The operations against what Pillow 13.0 made of the same images.
//!
//! Recorded with `python tests/fixtures/pillow.py > tests/fixtures/pillow.txt`.

use earthmover_ssl::augment::Canvas;

struct Record<'a> {
    name: &'a str,
    argument: f64,
    channels: usize,
    height: usize,
    width: usize,
    bytes: Vec<u8>,
}

fn records() -> Vec<Record<'static>> {
    include_str!("../fixtures/pillow.txt")
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let number = |i: usize| fields[i].parse().unwrap();
            let hex = fields[5];
            Record {
                name: fields[0],
                argument: fields[1].parse().unwrap(),
                channels: number(2),
                height: number(3),
                width: number(4),
                bytes: (0..hex.len() / 2)
                    .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
                    .collect(),
            }
        })
        .collect()
}

fn apply(canvas: &mut Canvas, name: &str, argument: f64) {
    match name {
        "autocontrast" => canvas.autocontrast(),
        "equalize" => canvas.equalize(),
        "solarize" => canvas.solarize(argument),
        "posterize" => canvas.posterize(argument as u32),
        "color" => canvas.color(argument),
        "contrast" => canvas.contrast(argument),
        "brightness" => canvas.brightness(argument),
        "sharpness" => canvas.sharpness(argument),
        "rotate" => canvas.rotate(argument),
        "shear_x" => canvas.shear_x(argument),
        "shear_y" => canvas.shear_y(argument),
        "translate_x" => canvas.translate_x(argument),
        "translate_y" => canvas.translate_y(argument),
        other => panic!("{other}"),
    }
}

#[test]
fn every_operation_is_pillow_s_to_the_byte() {
    let mut source = Vec::new();
    let mut compared = std::collections::BTreeSet::new();
    for record in records() {
        if record.name == "source" {
            source = record.bytes;
            continue;
        }
        let mut canvas = Canvas::new(record.height, record.width, record.channels).unwrap();
        canvas.load(&source).unwrap();
        apply(&mut canvas, record.name, record.argument);
        let off = canvas
            .pixels()
            .iter()
            .zip(&record.bytes)
            .filter(|(a, b)| a != b)
            .count();
        assert_eq!(
            off, 0,
            "{} {} on {} channels: values differ",
            record.name, record.argument, record.channels
        );
        let idle = record.name == "color" && record.channels == 1;
        assert!(
            idle || record.bytes != source,
            "{} {} records no change",
            record.name,
            record.argument
        );
        compared.insert(record.name);
    }
    assert_eq!(compared.len(), 13, "all but the identity: {compared:?}");
}
