//! The generator against published figures, and the laws of what it draws.

use earthmover_ssl::rng::{Rng, RngState};

/// Words of NumPy's own generator:
/// `numpy.random.Philox(key=0xfedcba98765432100123456789abcdef).random_raw(9)`.
#[test]
fn words_are_those_of_numpy() {
    let mut rng = Rng::with_key([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
    let expected: [u64; 9] = [
        3255675961979684346,
        15378784075089118890,
        1751845244926118435,
        3924942946452930644,
        6268963194074653318,
        719469363296755072,
        6041109751069806434,
        882498267011097445,
        9071310534072263509,
    ];
    assert_eq!(expected.map(|_| rng.next_u64()), expected);
    assert_eq!(
        rng.state(),
        RngState {
            key: [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210],
            position: 9
        }
    );
}

#[test]
fn forks_ignore_what_was_drawn_and_differ() {
    let mut root = Rng::new(5);
    let before = root.fork(3).next_u64();
    for _ in 0..17 {
        root.next_u64();
    }
    assert_eq!(root.fork(3).next_u64(), before);
    let mut firsts: Vec<u64> = (0..1000).map(|s| root.fork(s).next_u64()).collect();
    firsts.extend((0..1000).map(|s| root.fork(s).fork(1).next_u64()));
    firsts.extend((0..1000).map(|s| Rng::new(s).next_u64()));
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts.len(), 3000);
}

#[test]
fn state_restores_at_every_position() {
    let mut rng = Rng::new(11);
    for _ in 0..13 {
        let text = serde_json::to_string(&rng).unwrap();
        let mut copy: Rng = serde_json::from_str(&text).unwrap();
        assert_eq!(copy, rng);
        let mut other = rng.clone();
        for _ in 0..9 {
            assert_eq!(copy.next_u64(), other.next_u64());
        }
        rng.next_u64();
    }
}

#[test]
fn moments() {
    let mut rng = Rng::new(2);
    let n = 200_000;
    let (mut u, mut z, mut zz) = (0.0, 0.0, 0.0);
    for _ in 0..n {
        let x = rng.uniform();
        assert!((0.0..1.0).contains(&x));
        u += x;
        let g = rng.normal();
        z += g;
        zz += g * g;
    }
    let n = f64::from(n);
    // Five standard errors.
    assert!((u / n - 0.5).abs() < 5.0 * (1.0 / 12.0 / n).sqrt());
    assert!((z / n).abs() < 5.0 / n.sqrt());
    assert!((zz / n - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
}

#[test]
fn integers_are_uniform() {
    let mut rng = Rng::new(3);
    let mut counts = [0usize; 7];
    for _ in 0..70_000 {
        counts[rng.below(7)] += 1;
    }
    // χ² with 6 degrees of freedom exceeds 35 with probability 4e-6.
    let chi: f64 = counts
        .iter()
        .map(|&c| (c as f64 - 10_000.0).powi(2) / 10_000.0)
        .sum();
    assert!(chi < 35.0, "{counts:?}");
    assert!((0..1000).all(|_| (-2..=2).contains(&rng.range(-2, 2))));
    assert_eq!(
        (rng.below(0), rng.below(1), rng.range(4, 4), rng.range(4, 1)),
        (0, 0, 4, 4)
    );
    rng.range(i64::MIN, i64::MAX);
}

#[test]
fn subsets_orders_and_multinomials() {
    let mut rng = Rng::new(4);
    let mut hits = [0usize; 5];
    for _ in 0..10_000 {
        let picked = rng.choose(5, 2);
        assert_eq!(picked.len(), 2);
        assert_ne!(picked[0], picked[1]);
        picked.iter().for_each(|&i| hits[i] += 1);
    }
    assert!(hits.iter().all(|&h| (3700..4300).contains(&h)), "{hits:?}");
    let mut all = rng.choose(6, 99);
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    let mut items: Vec<u32> = (0..50).collect();
    rng.shuffle(&mut items);
    assert_ne!(items, (0..50).collect::<Vec<_>>());
    items.sort_unstable();
    assert_eq!(items, (0..50).collect::<Vec<_>>());

    let counts = rng.multinomial(10_000, &[1.0, 0.0, 3.0, f64::NAN, -1.0]);
    assert_eq!(counts.iter().sum::<usize>(), 10_000);
    assert_eq!((counts[1], counts[3], counts[4]), (0, 0, 0));
    assert!((2250..2750).contains(&counts[0]), "{counts:?}");
    assert_eq!(rng.multinomial(5, &[0.0, 0.0]), [0, 0]);
    assert!(rng.multinomial(5, &[]).is_empty());
}
