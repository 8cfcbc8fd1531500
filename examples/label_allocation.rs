//! Labels for 1,437 handwritten digits from a classifier that saw 20 of them.
//!
//! ```text
//! cargo run --release -p earthmover-ssl --no-default-features --features data --example label_allocation
//! ```
//!
//! Prints what the allocator decided at ρ = 0.9 (masses, what abstained, what each class bound costs) and draws the
//! allocation as ρ grows to `target/label_allocation.svg`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "label_allocation/picture.rs"]
mod picture;
#[path = "label_allocation/softmax.rs"]
mod softmax;

use std::error::Error;

use earthmover_ssl::allocation::{Bounds, LabelAllocator};

const CLASSES: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let (log_p, counts, truth) = softmax::digit_predictions(20, 3);
    let n = truth.len();
    let all: Vec<usize> = (0..n).collect();

    // Twenty labels say little about proportions, but people write all digits about equally often.
    let mut allocator = LabelAllocator::options(n, CLASSES)
        .bounds(Bounds::given(&[0.1; CLASSES])?)
        .tolerance(1e-4)
        .build()?;
    allocator.observe(&all, &log_p)?;
    let report = allocator.allocate(0.9)?;
    let (labels, diagnosis) = (allocator.hard_labels(), allocator.diagnose());

    println!(
        "{n} digits, {} labeled; rho = 0.9, gamma = {}\n{} in {} iterations, {:.2} ms, error {:.1e}\n",
        counts.iter().sum::<usize>(),
        allocator.gamma(),
        report.status,
        report.iterations,
        report.seconds * 1e3,
        report.error,
    );
    println!("digit  labeled   argmax  allocated      cap  price (nats)  right");
    for class in 0..CLASSES {
        let argmax = log_p
            .chunks(CLASSES)
            .filter(|row| best(row) == class)
            .count();
        let given: Vec<usize> = (0..n).filter(|&i| labels[i] == Some(class)).collect();
        let right = given.iter().filter(|&&i| truth[i] == class).count();
        let bound = diagnosis.classes[class];
        let mark = if bound.binding { '*' } else { ' ' };
        println!(
            "{class:>5} {:>9} {argmax:>8} {:>10.1} {:>8.1} {:>12.3}{mark} {:>5.0}%",
            counts[class],
            bound.mass,
            bound.cap,
            bound.price,
            100.0 * right as f64 / given.len().max(1) as f64,
        );
    }
    let abstained: Vec<usize> = (0..n).filter(|&i| labels[i].is_none()).collect();
    let correct = |set: &[usize]| {
        let right = set
            .iter()
            .filter(|&&i| best(&log_p[i * CLASSES..][..CLASSES]) == truth[i]);
        100.0 * right.count() as f64 / set.len().max(1) as f64
    };
    println!("    * the bound binds; its price is what one more place in the class would save");
    println!(
        "\nabstained: {} digits, on which the classifier is right {:.0}% of the time (all digits: {:.0}%)",
        abstained.len(),
        correct(&abstained),
        correct(&all),
    );
    println!(
        "an example of an unbound class is labeled if p >= {:.3}; bounds cost {:.3} nats per label, \
         {:.1}% of the mass went elsewhere than the argmax: {:?}",
        (-diagnosis.mass_price).exp(),
        diagnosis.regret,
        100.0 * diagnosis.forced,
        diagnosis.warning,
    );

    let mut curve = Vec::new();
    let mut confident = all.clone();
    let confidence = |i: usize| {
        log_p[i * CLASSES..][..CLASSES]
            .iter()
            .copied()
            .fold(f32::MIN, f32::max)
    };
    confident.sort_by(|a, b| confidence(*b).total_cmp(&confidence(*a)));
    for step in 0..=50 {
        let rho = f64::from(step) / 50.0;
        let report = allocator.allocate(rho)?;
        let labels = allocator.hard_labels();
        let given = labels.iter().filter(|l| l.is_some()).count();
        let right = labels
            .iter()
            .zip(&truth)
            .filter(|(l, t)| **l == Some(**t))
            .count();
        let baseline = correct(&confident[..given]);
        let share = |right: usize| 100.0 * right as f64 / given.max(1) as f64;
        curve.push(picture::Moment {
            rho,
            shares: report.mass.iter().map(|m| m / n as f64).collect(),
            right: (given > 20).then(|| share(right)),
            argmax_right: (given > 20).then_some(baseline),
        });
    }
    let path = "target/label_allocation.svg";
    std::fs::create_dir_all("target")?;
    std::fs::write(path, picture::draw(&curve))?;
    println!("\nallocation as rho grows: {path}");
    Ok(())
}

fn best(row: &[f32]) -> usize {
    (0..row.len())
        .max_by(|a, b| row[*a].total_cmp(&row[*b]))
        .unwrap_or(0)
}
