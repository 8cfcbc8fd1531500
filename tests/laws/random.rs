//! How many random problems a law is held against, and holding them against it.

use proptest::test_runner::{Config, TestCaseResult, TestRunner};

use crate::problems::{Case, Draw, case};

/// `default` cases per property, or `PROPTEST_CASES` of them. A property that is stamped several times,
/// once per kind of cost, divides the cases among its stamps.
pub fn cases(default: u32, stamps: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let cases = asked
        .and_then(|n| n.parse().ok())
        .unwrap_or(default * stamps);
    Config {
        cases: u32::max(1, cases / stamps),
        failure_persistence: None,
        ..Config::default()
    }
}

/// Holds random problems against a law. One function for all laws, so that a thousand stamps do not
/// compile a thousand test runners.
pub fn check(config: Config, draw: Draw, law: &dyn Fn(&Case) -> TestCaseResult) {
    let outcome = TestRunner::new(config).run(&case(draw), |case| law(&case));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
