//! Figures that stand alone: SVG files for a README or a paper, a few tens of kilobytes each.

use std::fmt::Write;

use super::axis::{Axis, Scale};
use super::chart::{COLOURS, Chart, Frame, HEIGHT, Key, RIGHT, WIDTH, escape};
use super::mean_and_deviation;
use super::series::group;
use super::{dynamics as charts, fidelity as programme};
use crate::trainer::Recorded;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#222} .h{font-size:16px;font-weight:600} \
    .t{font-size:14px;font-weight:600} .l{font-size:13px;fill:#333} .g{stroke:#e6e6e6} .a{stroke:#444;fill:none}";
/// Height of a line of a legend.
const LINE: f64 = 18.0;
/// Points left of a curve: the picture is as wide as this many pixels or so.
const POINTS: usize = 120;

/// A picture with its legend.
struct Panel {
    body: String,
    keys: Vec<Key>,
}

impl From<Chart> for Panel {
    fn from(mut chart: Chart) -> Self {
        for curve in &mut chart.curves {
            let every = curve.points.len().div_ceil(POINTS).max(1);
            let last = curve.points.last().copied();
            curve.points = curve.points.iter().step_by(every).copied().collect();
            curve.points.extend(last.filter(|_| every > 1));
            curve.band = curve.band.iter().step_by(every).copied().collect();
        }
        Self {
            body: chart.body(),
            keys: match chart.named_ends {
                true => Vec::new(),
                false => chart.keys(),
            },
        }
    }
}

/// Places of a legend's names, and its height. Letters are taken to be 6.6 wide.
fn legend(keys: &[Key]) -> (Vec<(f64, f64)>, f64) {
    let (mut x, mut y) = (66.0, 0.0);
    let mut places = Vec::new();
    for key in keys {
        let width = 28.0 + 6.6 * key.name.chars().count() as f64 + 14.0;
        if x + width > WIDTH && x > 66.0 {
            (x, y) = (66.0, y + LINE);
        }
        places.push((x, y));
        x += width;
    }
    (places, y + LINE)
}

/// Panels row by row under a heading; one alone has the title over it already.
fn sheet(title: &str, panels: &[Panel], columns: usize) -> String {
    let columns = columns.clamp(1, panels.len().max(1));
    let heading = if panels.len() > 1 { 30.0 } else { 0.0 };
    let mut inside = String::new();
    let mut top = heading;
    for row in panels.chunks(columns) {
        let mut deepest: f64 = 0.0;
        for (column, panel) in row.iter().enumerate() {
            let (places, depth) = legend(&panel.keys);
            deepest = deepest.max(depth);
            let left = column as f64 * WIDTH;
            let _ = write!(
                inside,
                r#"<g transform="translate({left:.0} {top:.0})">{}"#,
                panel.body
            );
            for (key, (x, y)) in panel.keys.iter().zip(places) {
                let y = HEIGHT + y + 4.0;
                let dash = if key.dashed {
                    r#" stroke-dasharray="5 3""#
                } else {
                    ""
                };
                let _ = write!(
                    inside,
                    r#"<line x1="{x:.1}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="{}" stroke-width="3"{dash}/><text x="{:.1}" y="{:.1}">{}</text>"#,
                    x + 22.0,
                    key.colour,
                    x + 28.0,
                    y + 4.0,
                    escape(&key.name)
                );
            }
            inside.push_str("</g>\n");
        }
        top += HEIGHT + deepest + 12.0;
    }
    let width = columns as f64 * WIDTH;
    let mut s = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {top:.0}" width="{width:.0}" height="{top:.0}" role="img" aria-label="{0}"><style>{STYLE}</style><rect width="100%" height="100%" fill="white"/>"#,
        escape(title)
    );
    if heading > 0.0 {
        let _ = write!(
            s,
            r#"<text class="h" x="{:.0}" y="21" text-anchor="middle">{}</text>"#,
            width / 2.0,
            escape(title)
        );
    }
    s.push('\n');
    s.push_str(&inside);
    s.push_str("</svg>\n");
    s
}

/// Test errors of some methods in one setting, say with so many labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// The setting.
    pub name: String,
    /// Of each method its name and the test errors of its seeds, in percent.
    pub methods: Vec<(String, Vec<f64>)>,
}

/// Bars of the mean error with whiskers of ± one standard deviation, and a dot for each seed.
///
/// # Examples
/// ```
/// use earthmover_ssl::report::figures::{Bars, errors};
/// let methods = vec![("SLA".to_owned(), vec![9.0, 11.0]), ("FixMatch".to_owned(), vec![12.0])];
/// let svg = errors("Digits", "labels", &[Bars { name: "20".to_owned(), methods }]);
/// assert!(svg.starts_with("<svg") && svg.contains("FixMatch"));
/// ```
#[must_use]
pub fn errors(title: &str, x: &str, groups: &[Bars]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in groups.iter().flat_map(|g| &g.methods) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let all = || groups.iter().flat_map(|g| &g.methods).map(|m| &m.1);
    let tops = all().map(|e| {
        let (mean, deviation) = mean_and_deviation(e);
        mean + deviation
    });
    let heights = tops.chain(all().flatten().copied());
    let frame = Frame {
        x: Axis::between(0.0, groups.len().max(1) as f64),
        y: Axis::scaled(Scale::FromZero, heights),
        right: RIGHT,
    };
    let ticks: Vec<(f64, String)> = groups
        .iter()
        .enumerate()
        .map(|(i, g)| (i as f64 + 0.5, g.name.clone()))
        .collect();
    let mut body = frame.svg(
        title,
        (x, "test error, % (mean ± std; dots: seeds)"),
        Some(&ticks),
    );
    let width = 0.84 / names.len().max(1) as f64;
    for (i, group) in groups.iter().enumerate() {
        for (name, errors) in group.methods.iter().filter(|m| !m.1.is_empty()) {
            let place = names.iter().position(|n| n == name).unwrap_or(0);
            let left = i as f64 + 0.08 + place as f64 * width;
            let (x0, x1) = (frame.px(left + 0.08 * width), frame.px(left + 0.92 * width));
            let (mean, deviation) = mean_and_deviation(errors);
            let (top, floor, middle) = (frame.py(mean), frame.py(0.0), (x0 + x1) / 2.0);
            let colour = COLOURS[place % COLOURS.len()];
            let _ = write!(
                body,
                r##"<rect x="{x0:.1}" y="{top:.1}" width="{:.1}" height="{:.1}" fill="{colour}" opacity="0.75"/>"##,
                x1 - x0,
                floor - top
            );
            if errors.len() > 1 {
                let (low, high) = (frame.py(mean - deviation), frame.py(mean + deviation));
                let _ = write!(
                    body,
                    r##"<path d="M{middle:.1} {low:.1}V{high:.1}M{0:.1} {low:.1}H{1:.1}M{0:.1} {high:.1}H{1:.1}" stroke="#222" fill="none"/>"##,
                    middle - 4.0,
                    middle + 4.0
                );
            }
            for error in errors {
                let _ = write!(
                    body,
                    r##"<circle cx="{middle:.1}" cy="{:.1}" r="1.8" fill="#fff" stroke="#222" stroke-width="0.7"/>"##,
                    frame.py(*error)
                );
            }
        }
    }
    let keys = names.iter().enumerate().map(|(i, name)| Key {
        name: (*name).to_owned(),
        colour: COLOURS[i % COLOURS.len()],
        dashed: false,
    });
    let panel = Panel {
        body,
        keys: keys.collect(),
    };
    sheet(title, &[panel], 1)
}

/// The paper's two figures on training dynamics, of one run: allocated share and test error over the steps, β and
/// allocation of the classes.
#[must_use]
pub fn dynamics(title: &str, run: &Recorded, classes: &[String]) -> String {
    let series = group(std::slice::from_ref(run));
    let mut panels: Vec<Panel> = Vec::new();
    panels.extend(charts::charts(&series).into_iter().take(3).map(Panel::from));
    if let Some(found) = charts::classes(run, classes) {
        panels.extend(found.charts.into_iter().map(Panel::from));
    }
    sheet(title, &panels, 2)
}

/// Gap and label agreement beside the linear programme, against γ and over the steps; `None` where the run has no
/// such comparison.
#[must_use]
pub fn fidelity(title: &str, run: &Recorded) -> Option<String> {
    if run.fidelity.is_empty() {
        return None;
    }
    let charts = programme::charts(run).into_iter().map(Panel::from);
    Some(sheet(title, &charts.collect::<Vec<_>>(), 2))
}
