//! Views: laws of the operations, of the policies and of whole batches.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use earthmover_ssl::augment::{
    AugmentError, Batcher, Canvas, Cutout, Disturbance, ImagePolicy, Magnitudes, Operation, Policy,
    Prefetch, Sign, TabularPolicy, View,
};
use earthmover_ssl::data::{Kind, Normalisation, Part, Samples, Shape, digits};
use earthmover_ssl::rng::Rng;

fn noise(height: usize, width: usize, channels: usize) -> Vec<u8> {
    let mut rng = Rng::new((height * width + channels) as u64);
    (0..height * width * channels)
        .map(|_| rng.next_u64() as u8)
        .collect()
}

fn canvas(height: usize, width: usize, channels: usize) -> Canvas {
    let mut canvas = Canvas::new(height, width, channels).unwrap();
    canvas.load(&noise(height, width, channels)).unwrap();
    canvas
}

/// Random colour images of the size of CIFAR.
fn colour_part(n: usize) -> Part {
    let shape = Shape::Image {
        height: 32,
        width: 32,
        channels: 3,
    };
    let labels = (0..n as u32).map(|i| i % 10).collect();
    Part::new(
        shape,
        Samples::Pixels(noise(32 * n, 32, 3)),
        labels,
        Path::new("noise"),
    )
    .unwrap()
}

#[test]
fn crops_are_windows_of_the_mirrored_image() {
    for (h, w, c) in [(6, 5, 3), (8, 8, 1), (3, 4, 1)] {
        let image = noise(h, w, c);
        let mirror = |p: isize, n: usize| {
            let p = p.unsigned_abs();
            if p < n { p } else { 2 * (n - 1) - p }
        };
        for (top, left) in [(0, 0), (2, 2), (4, 1), (1, 4)] {
            for flip in [false, true] {
                let mut canvas = canvas(h, w, c);
                canvas.crop(2, top, left, flip);
                for y in 0..h {
                    for x in 0..w {
                        let x_read = if flip { w - 1 - x } else { x };
                        let from_y = mirror((y + top) as isize - 2, h);
                        let from_x = mirror((x_read + left) as isize - 2, w);
                        for k in 0..c {
                            assert_eq!(
                                canvas.pixels()[(y * w + x) * c + k],
                                image[(from_y * w + from_x) * c + k]
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn operations_survive_any_size_level_and_sign() {
    let wild = Magnitudes {
        rotate: 1e9,
        shear: 1e30,
        translate: f64::MAX,
    };
    for (h, w) in [(1, 1), (1, 9), (2, 2), (3, 3), (7, 32), (32, 32)] {
        for c in [1, 3] {
            for operation in Operation::ALL {
                for level in [0, 1, 5, 9, 10, u32::MAX] {
                    for sign in [Sign::Plus, Sign::Minus] {
                        for m in [Magnitudes::default(), wild] {
                            let mut canvas = canvas(h, w, c);
                            operation.apply(&mut canvas, level, sign, &m);
                            assert_eq!(canvas.pixels().len(), h * w * c);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn levels_mean_what_was_published() {
    // A ramp of all grey values: tables can be read off it.
    let ramp: Vec<u8> = (0..=255).collect();
    let read = |operation: Operation, level| {
        let mut canvas = Canvas::new(16, 16, 1).unwrap();
        canvas.load(&ramp).unwrap();
        operation.apply(&mut canvas, level, Sign::Plus, &Magnitudes::default());
        canvas.pixels().to_vec()
    };
    for level in 1..=9 {
        let solarized = read(Operation::Solarize, level);
        let first = solarized
            .iter()
            .enumerate()
            .position(|(v, &s)| usize::from(s) != v)
            .unwrap();
        assert_eq!(first, (256.0 - 25.6 * f64::from(level)).ceil() as usize);
        let mut posterized = read(Operation::Posterize, level);
        posterized.dedup();
        assert_eq!(
            posterized.len(),
            1 << (4 - (0.4 * f64::from(level)).floor() as u32)
        );
        let bright = read(Operation::Brightness, level);
        assert!((f64::from(bright[100]) - 100.0 * (0.1 + 0.18 * f64::from(level))).abs() < 1.001);
    }
    // Level 5 turns by 15 degrees and moves by 5 pixels.
    let mut a = canvas(32, 32, 3);
    Operation::Rotate.apply(&mut a, 5, Sign::Minus, &Magnitudes::default());
    let mut b = canvas(32, 32, 3);
    b.rotate(-15.0);
    assert_eq!(a.pixels(), b.pixels());
    let mut a = canvas(32, 32, 1);
    Operation::TranslateX.apply(&mut a, 5, Sign::Plus, &Magnitudes::default());
    assert_eq!(a.pixels()[..27], noise(32, 32, 1)[5..32]);
    assert_eq!(a.pixels()[27..32], [0; 5]);
}

#[test]
fn opposite_translations_undo_each_other_inside() {
    let mut moved = canvas(12, 12, 3);
    moved.translate_y(3.0);
    moved.translate_y(-3.0);
    let image = noise(12, 12, 3);
    assert_eq!(moved.pixels()[3 * 36..], image[3 * 36..]);
    assert!(moved.pixels()[..3 * 36].iter().all(|&v| v == 0));
}

#[test]
fn cutout_is_a_clipped_square_with_uniform_centre() {
    let mut rng = Rng::new(1);
    let mut hits = [0usize; 32 * 32];
    let draws = 5_000;
    for _ in 0..draws {
        let mut planes = vec![1.0f32; 3 * 32 * 32];
        Cutout { size: 16 }.apply(&mut planes, 32, 32, &mut rng);
        assert_eq!(planes[..1024], planes[1024..2048]);
        assert_eq!(planes[..1024], planes[2048..]);
        let zero: Vec<usize> = (0..1024).filter(|&i| planes[i] == 0.0).collect();
        let (top, bottom) = (zero[0] / 32, zero[zero.len() - 1] / 32);
        let (left, right) = (zero[0] % 32, zero[zero.len() - 1] % 32);
        assert_eq!(
            zero.len(),
            (bottom - top + 1) * (right - left + 1),
            "a rectangle"
        );
        assert!((8..=16).contains(&(bottom - top + 1)) && (8..=16).contains(&(right - left + 1)));
        zero.iter().for_each(|&i| hits[i] += 1);
    }
    // A pixel in the middle is covered by 16 of 32 centres along each side, a corner by 8 or 9.
    let rate = |y: usize, x: usize| hits[y * 32 + x] as f64 / f64::from(draws);
    assert!((rate(16, 16) - 0.25).abs() < 0.03, "{}", rate(16, 16));
    assert!((rate(0, 0) - 81.0 / 1024.0).abs() < 0.02, "{}", rate(0, 0));
    assert!(
        (rate(31, 31) - 64.0 / 1024.0).abs() < 0.01,
        "{}",
        rate(31, 31)
    );
    let mut planes = vec![1.0f32; 4];
    Cutout { size: 0 }.apply(&mut planes, 2, 2, &mut rng);
    assert_eq!(planes, [1.0; 4]);
    Cutout {
        size: usize::MAX / 2,
    }
    .apply(&mut planes, 2, 2, &mut rng);
    assert_eq!(planes, [0.0; 4]);
}

#[test]
fn plain_views_are_normalised_planes() {
    let part = colour_part(4);
    let (mean, std) = ([0.4914, 0.4822, 0.4465], [0.2471, 0.2435, 0.2616]);
    let batcher = Batcher::new(
        part.shape(),
        &Normalisation::new(&mean, &std),
        Policy::Image(ImagePolicy::cifar()),
    )
    .unwrap();
    let batch = batcher.batch(&part, &[2, 0], View::Plain, 9, 9).unwrap();
    for (row, index) in [2, 0].into_iter().enumerate() {
        let image = part.image(index).unwrap();
        for (y, x, c) in [(0, 0, 0), (3, 17, 1), (31, 31, 2)] {
            let expected = (f32::from(image[(y * 32 + x) * 3 + c]) / 255.0 - mean[c]) / std[c];
            let found = batch[((row * 3 + c) * 32 + y) * 32 + x];
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }
}

#[test]
fn batches_are_the_same_on_any_number_of_threads() {
    let part = colour_part(50);
    let normalisation = Normalisation::measure(&part);
    let batcher = Batcher::new(
        part.shape(),
        &normalisation,
        Policy::Image(ImagePolicy::cifar()),
    )
    .unwrap();
    let indices: Vec<usize> = (0..131).map(|i| i * 7 % 50).collect();
    let on = |threads: usize, view, seed, step| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| batcher.batch(&part, &indices, view, seed, step))
            .unwrap()
    };
    for view in [View::Weak, View::Strong] {
        let one = on(1, view, 3, 17);
        for threads in [2, 3, 8] {
            assert!(
                one.iter()
                    .zip(&on(threads, view, 3, 17))
                    .all(|(a, b)| a.to_bits() == b.to_bits())
            );
        }
        assert_ne!(one, on(1, view, 3, 18));
        assert_ne!(one, on(1, view, 4, 17));
    }
    // A row's view does not depend on the rest of the batch, and the same example twice differs.
    let size = part.shape().size();
    let short = batcher
        .batch(&part, &indices[..5], View::Strong, 3, 17)
        .unwrap();
    assert_eq!(short, on(2, View::Strong, 3, 17)[..5 * size]);
    let twice = batcher.batch(&part, &[1, 1], View::Weak, 0, 0).unwrap();
    assert_ne!(twice[..size], twice[size..]);
}

#[test]
fn weak_views_flip_half_and_shift_evenly() {
    // A single bright pixel in the middle of a column pattern tells offset and flip.
    let shape = Shape::Image {
        height: 32,
        width: 32,
        channels: 1,
    };
    let mut image = vec![0u8; 1024];
    image[16 * 32 + 15] = 255;
    image[16 * 32 + 16] = 128;
    let part = Part::new(shape, Samples::Pixels(image), vec![0], Path::new("dot")).unwrap();
    let identity = Normalisation::new(&[0.0], &[1.0]);
    let count = |policy: ImagePolicy| {
        let batcher = Batcher::new(shape, &identity, Policy::Image(policy)).unwrap();
        let n = 8100;
        let batch = batcher.batch(&part, &vec![0; n], View::Weak, 5, 0).unwrap();
        let mut offsets = [0usize; 9];
        let mut flips = 0;
        for view in batch.chunks_exact(1024) {
            let at = view.iter().position(|&v| v == 1.0).unwrap();
            let flipped = view[at - 1] > 0.0;
            flips += usize::from(flipped);
            offsets[at / 32 - 12] += 1;
        }
        (offsets, flips)
    };
    let (offsets, flips) = count(ImagePolicy::cifar());
    assert!((3800..4300).contains(&flips), "{flips}");
    assert!(
        offsets.iter().all(|o| (750..1050).contains(o)),
        "{offsets:?}"
    );
    let (_, flips) = count(ImagePolicy::svhn());
    assert_eq!(flips, 0);
}

#[test]
fn strong_views_apply_each_draw_half_of_the_time() {
    // Brightness at any level from 1 to 9 darkens or saturates full white unless the factor is ≥ 1.
    let shape = Shape::Image {
        height: 8,
        width: 8,
        channels: 1,
    };
    let part = Part::new(
        shape,
        Samples::Pixels(vec![100; 64]),
        vec![0],
        Path::new("flat"),
    )
    .unwrap();
    let mut policy = ImagePolicy::digits()
        .cutout(0)
        .operations(&[Operation::Brightness]);
    policy.rand_augment.draws = 1;
    let batcher = Batcher::new(
        shape,
        &Normalisation::new(&[0.0], &[1.0]),
        Policy::Image(policy),
    )
    .unwrap();
    let n = 9000;
    let batch = batcher
        .batch(&part, &vec![0; n], View::Strong, 1, 1)
        .unwrap();
    let mut levels = std::collections::BTreeMap::new();
    for view in batch.chunks_exact(64) {
        *levels
            .entry((view[0] * 255.0).round() as u32)
            .or_insert(0usize) += 1;
    }
    // 100 (0.1 + 0.18 ℓ), truncated; level 5 is the identity.
    let expected = [28, 46, 64, 82, 100, 118, 136, 154, 172];
    for (value, hits) in &levels {
        let near = expected.iter().any(|e| value.abs_diff(*e) <= 1);
        assert!(near, "{levels:?}");
        let range = if value.abs_diff(100) <= 1 {
            4700..5300
        } else {
            400..600
        };
        assert!(range.contains(hits), "{levels:?}");
    }
    assert_eq!(levels.len(), 9, "{levels:?}");
}

#[test]
fn rows_get_noise_and_dropout() {
    let shape = Shape::Table { features: 3 };
    let rows = [[10.0f32, -5.0, 0.5]; 4].concat();
    let part = Part::new(
        shape,
        Samples::Features(rows),
        vec![0, 0, 1, 1],
        Path::new("rows"),
    )
    .unwrap();
    let normalisation = Normalisation::new(&[8.0, -5.0, 0.0], &[2.0, 1.0, 0.5]);
    let policy = TabularPolicy {
        weak: Disturbance {
            noise: 0.1,
            dropout: 0.0,
        },
        strong: Disturbance {
            noise: 0.0,
            dropout: 0.3,
        },
    };
    let batcher = Batcher::new(shape, &normalisation, Policy::Tabular(policy)).unwrap();
    assert_eq!(
        batcher.batch(&part, &[1], View::Plain, 0, 0).unwrap(),
        [1.0, 0.0, 1.0]
    );
    let n = 20_000;
    let weak = batcher.batch(&part, &vec![0; n], View::Weak, 0, 0).unwrap();
    let errors: Vec<f64> = weak
        .chunks_exact(3)
        .map(|r| f64::from(r[0]) - 1.0)
        .collect();
    let mean = errors.iter().sum::<f64>() / n as f64;
    let variance = errors.iter().map(|e| e * e).sum::<f64>() / n as f64;
    assert!(
        mean.abs() < 0.005 && (variance - 0.01).abs() < 0.001,
        "{mean} {variance}"
    );
    let strong = batcher
        .batch(&part, &vec![0; n], View::Strong, 0, 0)
        .unwrap();
    let dropped = strong.chunks_exact(3).filter(|r| r[0] == 0.0).count() as f64 / n as f64;
    assert!((dropped - 0.3).abs() < 0.02, "{dropped}");
}

#[test]
fn misuse_is_refused_at_the_door() {
    let digits = digits::load().unwrap();
    let image = |p: ImagePolicy| {
        Batcher::new(digits.shape(), &digits.normalisation, Policy::Image(p)).unwrap_err()
    };
    assert!(matches!(
        image(ImagePolicy::digits().flip(1.5)),
        AugmentError::Setting {
            setting: "flip",
            ..
        }
    ));
    let mut policy = ImagePolicy::digits();
    policy.rand_augment.highest = 11;
    assert!(matches!(
        image(policy),
        AugmentError::Setting {
            setting: "highest level",
            ..
        }
    ));
    let table = Policy::Tabular(TabularPolicy::default());
    let error = Batcher::new(digits.shape(), &digits.normalisation, table).unwrap_err();
    assert!(matches!(
        error,
        AugmentError::Policy {
            policy: "tabular",
            ..
        }
    ));
    let policy = Policy::Image(ImagePolicy::digits());
    for wrong in [
        Normalisation::new(&[0.5; 3], &[0.5; 3]),
        Normalisation::new(&[0.5], &[0.0]),
    ] {
        let error = Batcher::new(digits.shape(), &wrong, policy.clone()).unwrap_err();
        assert!(matches!(
            error,
            AugmentError::Normalisation { channels: 1, .. }
        ));
    }
    let batcher = Batcher::new(digits.shape(), &digits.normalisation, policy).unwrap();
    let error = batcher
        .batch(&digits.test, &[0, 360], View::Weak, 0, 0)
        .unwrap_err();
    assert_eq!(
        error,
        AugmentError::Index {
            index: 360,
            examples: 360
        }
    );
    let error = batcher
        .fill(&digits.test, &[0], View::Weak, 0, 0, &mut [0.0; 63])
        .unwrap_err();
    assert_eq!(
        error,
        AugmentError::Length {
            expected: 64,
            found: 63
        }
    );
    assert!(
        batcher
            .batch(&colour_part(1), &[0], View::Weak, 0, 0)
            .is_err()
    );
    assert!(
        batcher
            .batch(&digits.test, &[], View::Weak, 0, 0)
            .unwrap()
            .is_empty()
    );
    assert!(Canvas::new(0, 4, 1).is_err() && Canvas::new(4, 4, 2).is_err());
}

#[test]
fn policies_are_stored_exactly() {
    let shape = Shape::Image {
        height: 32,
        width: 32,
        channels: 3,
    };
    for kind in Kind::ALL {
        for shape in [shape, Shape::Table { features: 4 }] {
            let policy = Policy::preset(kind, shape);
            let text = serde_json::to_string(&policy).unwrap();
            assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
        }
    }
    assert_eq!(
        Policy::preset(Kind::Folder, shape),
        Policy::Image(ImagePolicy::cifar())
    );
}

#[test]
fn prefetching_is_ordered_bounded_and_stops() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let mut ahead = Prefetch::spawn(10, 2, move |step| {
        counter.fetch_add(1, Ordering::SeqCst);
        Some(step)
    })
    .unwrap();
    for (taken, expected) in (10..40).enumerate() {
        assert_eq!(ahead.next(), Some(expected));
        // Two ready, one in hand of the producer, one perhaps just begun.
        assert!(made.load(Ordering::SeqCst) <= taken + 1 + 4);
    }
    drop(ahead);
    let after = made.load(Ordering::SeqCst);
    std::thread::yield_now();
    assert_eq!(made.load(Ordering::SeqCst), after, "the thread is gone");

    let mut short = Prefetch::spawn(0, 8, |step| (step < 3).then_some(step)).unwrap();
    assert_eq!(short.by_ref().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(short.next(), None);
}

#[test]
fn prefetched_batches_are_those_made_on_the_spot() {
    let digits = Arc::new(digits::load().unwrap());
    let policy = Policy::preset(Kind::Digits, digits.shape());
    let batcher = Batcher::new(digits.shape(), &digits.normalisation, policy).unwrap();
    let (set, maker) = (Arc::clone(&digits), batcher.clone());
    let ahead = Prefetch::spawn(5, 3, move |step| {
        maker
            .batch(&set.train, &[1, 2, 3], View::Strong, 0, step)
            .ok()
    });
    for (step, batch) in (5..12).zip(ahead.unwrap()) {
        assert_eq!(
            batch,
            batcher
                .batch(&digits.train, &[1, 2, 3], View::Strong, 0, step)
                .unwrap()
        );
    }
}
