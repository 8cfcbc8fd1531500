//! Labeled splits: shares, seeds, refusals.

use std::path::Path;

use earthmover_ssl::data::{
    LabeledSplit, LongTail, Part, Sampler, Samples, Shape, SplitError, SplitMode, UNLABELED,
};

/// Labels of classes of the given sizes, mixed up.
fn labels(sizes: &[usize]) -> Vec<u32> {
    let mut rest = sizes.to_vec();
    let mut labels = Vec::new();
    while rest.iter().any(|&r| r > 0) {
        for (class, r) in rest.iter_mut().enumerate().filter(|(_, r)| **r > 0) {
            labels.push(class as u32);
            *r -= 1;
        }
    }
    labels
}

#[test]
fn every_mode_gives_what_it_promises() {
    let sizes = [500, 300, 150, 45, 5];
    let labels = labels(&sizes);
    for mode in SplitMode::ALL {
        for seed in 0..20 {
            let recipe = LabeledSplit::new(25).mode(mode).seed(seed);
            let split = recipe.draw_from_labels(&labels, 5).unwrap();
            assert_eq!(split, recipe.draw_from_labels(&labels, 5).unwrap());
            let expected = if mode == SplitMode::All { 1000 } else { 25 };
            assert_eq!(split.labeled.len(), expected);
            assert!(
                split.labeled.windows(2).all(|w| w[0] < w[1]),
                "no example twice"
            );
            let mut counts = vec![0; 5];
            split
                .labeled
                .iter()
                .for_each(|&i| counts[labels[i] as usize] += 1);
            assert_eq!(counts, split.counts);
            assert_eq!(split.unlabeled, (0..1000).collect::<Vec<_>>());
            match mode {
                SplitMode::Equal => assert_eq!(counts, [5; 5]),
                // 12.5 7.5 3.75 1.125 0.125: floors 12 7 3 1 0 leave two, which go to .75 and the first .5.
                SplitMode::LabelDist => assert_eq!(counts, [13, 7, 4, 1, 0]),
                // Floors with at least one, 12 7 3 1 1, leave one, which goes to .75.
                SplitMode::LabelDistMin1 => assert_eq!(counts, [12, 7, 4, 1, 1]),
                SplitMode::MultinomialMin1 => assert!(counts.iter().all(|&c| c >= 1)),
                SplitMode::Multinomial => {}
                SplitMode::All => assert_eq!(counts, sizes),
            }
        }
    }
}

#[test]
fn seeds_differ_and_multinomial_has_the_right_mean() {
    let labels = labels(&[600, 300, 100]);
    let draw = |seed| {
        LabeledSplit::new(10)
            .mode(SplitMode::Multinomial)
            .seed(seed)
            .draw_from_labels(&labels, 3)
    };
    let mut sums = [0.0; 3];
    for seed in 0..2000 {
        for (s, c) in sums.iter_mut().zip(draw(seed).unwrap().counts) {
            *s += c as f64 / 2000.0;
        }
    }
    for (mean, expected) in sums.iter().zip([6.0, 3.0, 1.0]) {
        assert!((mean - expected).abs() < 0.15, "{sums:?}");
    }
    assert_ne!(draw(0).unwrap().labeled, draw(1).unwrap().labeled);
}

#[test]
fn impossible_splits_are_refused_with_numbers() {
    let sizes = [500, 3];
    let labels = labels(&sizes);
    let draw = |n, mode| {
        LabeledSplit::new(n)
            .mode(mode)
            .draw_from_labels(&labels, 2)
            .unwrap_err()
    };
    assert_eq!(
        draw(1, SplitMode::LabelDistMin1),
        SplitError::TooFewLabels {
            labels: 1,
            classes: 2,
            mode: SplitMode::LabelDistMin1
        }
    );
    assert!(matches!(
        draw(0, SplitMode::Multinomial),
        SplitError::TooFewLabels { .. }
    ));
    assert_eq!(
        draw(7, SplitMode::Equal),
        SplitError::NotDivisible {
            labels: 7,
            classes: 2,
            below: 6,
            above: 8
        }
    );
    assert_eq!(
        draw(8, SplitMode::Equal),
        SplitError::ClassTooSmall {
            class: 1,
            available: 3,
            wanted: 4
        }
    );
    assert_eq!(
        draw(504, SplitMode::Equal),
        SplitError::TooManyLabels {
            labels: 504,
            examples: 503
        }
    );
    let error = LabeledSplit::new(5)
        .draw_from_labels(&[0, 1, 2], 2)
        .unwrap_err();
    assert_eq!(
        error,
        SplitError::Label {
            index: 2,
            label: 2,
            classes: 2
        }
    );
    // A class nobody belongs to cannot have its one label.
    let error = LabeledSplit::new(6)
        .draw_from_labels(&labels, 3)
        .unwrap_err();
    assert_eq!(
        error,
        SplitError::ClassTooSmall {
            class: 2,
            available: 0,
            wanted: 1
        }
    );
}

#[test]
fn names_and_stored_forms_agree() {
    for mode in SplitMode::ALL {
        assert_eq!(mode.name().parse::<SplitMode>().unwrap(), mode);
        assert_eq!(
            mode.name().replace('_', "-").parse::<SplitMode>().unwrap(),
            mode
        );
        assert_eq!(serde_json::to_string(&mode).unwrap(), format!("\"{mode}\""));
    }
    assert!(matches!(
        "even".parse::<SplitMode>(),
        Err(SplitError::UnknownMode { .. })
    ));
    let recipe = LabeledSplit::new(40).seed(u64::MAX);
    let copy: LabeledSplit =
        serde_json::from_str(&serde_json::to_string(&recipe).unwrap()).unwrap();
    assert_eq!(copy, recipe);
}

#[test]
fn samplers_draw_all_of_the_pool_with_replacement() {
    let sampler = Sampler::new(1, (10..20).collect());
    let mut hits = [0; 10];
    for step in 0..100 {
        let batch = sampler.batch(step, 64);
        assert_eq!(batch.len(), 64);
        batch.iter().for_each(|&i| hits[i - 10] += 1);
    }
    assert!(hits.iter().all(|h| (500..800).contains(h)), "{hits:?}");
    assert_ne!(sampler.batch(0, 64), sampler.batch(1, 64));
    assert!(Sampler::new(1, vec![]).batch(0, 3).is_empty());
}

#[test]
fn examples_without_labels_are_learned_from_and_never_labeled() {
    let mut labels = labels(&[30, 30]);
    labels.extend([UNLABELED; 40]);
    let split = LabeledSplit::new(10).draw_from_labels(&labels, 2).unwrap();
    assert_eq!((split.labeled.len(), split.unlabeled.len()), (10, 100));
    assert!(split.labeled.iter().all(|&i| labels[i] != UNLABELED));
    assert_eq!(split.population(&labels, 2), None);
    let too_many = LabeledSplit::new(61)
        .draw_from_labels(&labels, 2)
        .unwrap_err();
    assert_eq!(
        too_many,
        SplitError::TooManyLabels {
            labels: 61,
            examples: 60
        }
    );
}

#[test]
fn validation_examples_are_in_no_other_part() {
    let labels = labels(&[50, 50]);
    let whole = LabeledSplit::new(20)
        .seed(3)
        .draw_from_labels(&labels, 2)
        .unwrap();
    let split = whole.clone().hold_out(&labels, 0.2, 3).unwrap();
    assert_eq!((split.labeled.len(), split.validation.len()), (16, 4));
    assert_eq!(
        (split.counts.clone(), split.unlabeled.len()),
        (vec![8, 8], 96)
    );
    for index in &split.validation {
        assert!(whole.labeled.contains(index));
        assert!(!split.labeled.contains(index) && !split.unlabeled.contains(index));
    }
    assert_eq!(whole.clone().hold_out(&labels, 0.0, 3).unwrap(), whole);
    for share in [1.0, -0.1, f64::NAN, 0.01] {
        let refused = whole.clone().hold_out(&labels, share, 3);
        assert!(matches!(refused, Err(SplitError::Share { .. })), "{share}");
    }
}

#[test]
fn long_tails_fall_off_as_asked() {
    let sizes = [100; 5];
    let labels = labels(&sizes);
    let shape = Shape::Table { features: 1 };
    let rows = Samples::Features(vec![0.0; 500]);
    let part = Part::new(shape, rows, labels.clone(), Path::new("tail")).unwrap();
    let tail = LongTail {
        labeled: 10.0,
        unlabeled: 100.0,
    };
    let split = tail.draw(&part, 5, 10, 1).unwrap();
    let counts = split.population(&labels, 5).unwrap();
    assert_eq!(counts, [100, 31, 10, 3, 1]);
    assert_eq!(split.counts.iter().sum::<usize>(), split.labeled.len());
    assert!(split.labeled.iter().all(|i| split.unlabeled.contains(i)));
    let refused = LongTail {
        labeled: 0.0,
        unlabeled: 1.0,
    };
    assert!(refused.draw(&part, 5, 40, 1).is_err());
}
