//! Line charts and matrices as SVG text.

use std::fmt::Write;

use super::axis::Axis;

/// Colours that remain apart for colour-blind readers (Okabe and Ito), then dashes.
pub(super) const COLOURS: [&str; 10] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#7f7f7f",
    "#a6761d", "#111111",
];

/// One curve, perhaps with a band around it.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// (x, low, high).
    pub(super) band: Vec<(f64, f64, f64)>,
    pub(super) dashed: bool,
    /// Place in [`COLOURS`]; by default the place in the chart.
    pub(super) colour: Option<usize>,
}

/// A chart before it is drawn.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) curves: Vec<Curve>,
    /// Zero belongs on the y axis.
    pub(super) zero: bool,
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 50.0;

impl Chart {
    /// The SVG element, legend below it.
    pub(super) fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|c| c.points.iter());
        let x = Axis::around(points().map(|p| p.0));
        let bands = self.curves.iter().flat_map(|c| &c.band);
        let heights = points().map(|p| p.1);
        let heights = heights.chain(bands.flat_map(|b| [b.1, b.2]));
        let y = if self.zero {
            Axis::from_zero(heights)
        } else {
            Axis::around(heights)
        };
        let (w, h) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        let px = |v: f64| LEFT + w * x.place(v);
        let py = |v: f64| TOP + h * (1.0 - y.place(v));
        let mut s = String::new();
        let _ = write!(
            s,
            r#"<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{0}"><text class="t" x="{1:.1}" y="18" text-anchor="middle">{0}</text>"#,
            escape(&self.title),
            LEFT + w / 2.0
        );
        for (value, text) in y.ticks() {
            let at = py(value);
            let _ = write!(
                s,
                r#"<line class="g" x1="{LEFT}" y1="{at:.1}" x2="{:.1}" y2="{at:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{text}</text>"#,
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0
            );
        }
        let floor = HEIGHT - BOTTOM;
        for (value, text) in x.ticks() {
            let at = px(value);
            let _ = write!(
                s,
                r#"<line class="a" x1="{at:.1}" y1="{floor}" x2="{at:.1}" y2="{:.1}"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">{text}</text>"#,
                floor + 4.0,
                floor + 17.0
            );
        }
        let _ = write!(
            s,
            r#"<path class="a" d="M{LEFT} {TOP}V{floor}H{:.1}"/><text class="l" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text><text class="l" transform="translate(16 {:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
            WIDTH - RIGHT,
            LEFT + w / 2.0,
            HEIGHT - 12.0,
            escape(self.x),
            TOP + h / 2.0,
            escape(self.y)
        );
        for (index, curve) in self.curves.iter().enumerate() {
            let index = curve.colour.unwrap_or(index);
            let colour = COLOURS[index % COLOURS.len()];
            if !curve.band.is_empty() {
                let mut d = String::new();
                let up = curve.band.iter().map(|b| (b.0, b.2));
                let down = curve.band.iter().rev().map(|b| (b.0, b.1));
                for (i, (bx, by)) in up.chain(down).enumerate() {
                    let letter = if i == 0 { 'M' } else { 'L' };
                    let _ = write!(d, "{letter}{:.1} {:.1}", px(bx), py(by));
                }
                let _ = write!(s, r#"<path d="{d}Z" fill="{colour}" opacity="0.15"/>"#);
            }
            let mut d = String::new();
            for (i, &(cx, cy)) in curve.points.iter().enumerate() {
                let letter = if i == 0 { 'M' } else { 'L' };
                let _ = write!(d, "{letter}{:.1} {:.1}", px(cx), py(cy));
            }
            let dash = if curve.dashed || index >= COLOURS.len() {
                r#" stroke-dasharray="5 3""#
            } else {
                ""
            };
            let _ = write!(
                s,
                r#"<path d="{d}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"{dash}/>"#
            );
            // A curve of one point has no length: show where it is.
            if let [(cx, cy)] = curve.points.as_slice() {
                let _ = write!(
                    s,
                    r#"<circle cx="{:.1}" cy="{:.1}" r="3" fill="{colour}"/>"#,
                    px(*cx),
                    py(*cy)
                );
            }
        }
        s.push_str("</svg><figcaption>");
        for (index, curve) in self.curves.iter().enumerate() {
            let index = curve.colour.unwrap_or(index);
            let style = if curve.dashed || index >= COLOURS.len() {
                "dashed"
            } else {
                "solid"
            };
            let _ = write!(
                s,
                r#"<span class="k"><i style="border-top:3px {style} {}"></i>{}</span>"#,
                COLOURS[index % COLOURS.len()],
                escape(&curve.name)
            );
        }
        s.push_str("</figcaption></figure>");
        s
    }
}

/// A confusion matrix, rows normalised for the colour, counts as text.
pub(super) fn matrix(title: &str, counts: &[Vec<u32>], names: &[String]) -> String {
    let k = counts.len();
    let cell = (360.0 / k.max(1) as f64).clamp(4.0, 40.0);
    let longest = names.iter().map(|n| n.chars().count()).max().unwrap_or(1);
    let shown = k <= 20;
    let left = if shown {
        30.0 + 6.6 * longest.min(14) as f64
    } else {
        34.0
    };
    let below = if shown {
        26.0 + 6.6 * longest.min(14) as f64 * 0.75
    } else {
        26.0
    };
    let top = 34.0;
    let (width, height) = (
        left + cell * k as f64 + 12.0,
        top + cell * k as f64 + below + 14.0,
    );
    let mut s = format!(
        r#"<figure><svg viewBox="0 0 {width:.0} {height:.0}" style="max-width:{width:.0}px" role="img" aria-label="{0}"><text class="t" x="{1:.1}" y="18" text-anchor="middle">{0}</text>"#,
        escape(title),
        width / 2.0
    );
    for (i, row) in counts.iter().enumerate() {
        let total = row.iter().sum::<u32>().max(1);
        let y = top + cell * i as f64;
        for (j, &count) in row.iter().enumerate() {
            let share = f64::from(count) / f64::from(total);
            let x = left + cell * j as f64;
            // Right answers blue, wrong ones orange, both stronger the more there are.
            let colour = if i == j { "0,114,178" } else { "213,94,0" };
            let strength = if count == 0 { 0.0 } else { 0.08 + 0.92 * share };
            let _ = write!(
                s,
                r##"<rect x="{x:.1}" y="{y:.1}" width="{cell:.1}" height="{cell:.1}" fill="rgba({colour},{strength:.3})" stroke="#fff"/>"##
            );
            if count > 0 && cell >= 18.0 {
                let ink = if strength > 0.55 { "#fff" } else { "#222" };
                let _ = write!(
                    s,
                    r#"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="{ink}">{count}</text>"#,
                    x + cell / 2.0,
                    y + cell / 2.0 + 4.0
                );
            }
        }
        if shown {
            let name = short(names.get(i).map_or("", String::as_str));
            let _ = write!(
                s,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                left - 5.0,
                y + cell / 2.0 + 4.0,
                escape(&name)
            );
            let (x, y) = (left + cell * (i as f64 + 0.5), top + cell * k as f64 + 12.0);
            let _ = write!(
                s,
                r#"<text transform="translate({x:.1} {y:.1}) rotate(-45)" text-anchor="end">{}</text>"#,
                escape(&name)
            );
        }
    }
    let middle = top + cell * k as f64 / 2.0;
    let _ = write!(
        s,
        r#"<text class="l" transform="translate(14 {middle:.1}) rotate(-90)" text-anchor="middle">true class</text><text class="l" x="{:.1}" y="{:.1}" text-anchor="middle">predicted class</text></svg></figure>"#,
        left + cell * k as f64 / 2.0,
        height - 4.0
    );
    s
}

fn short(name: &str) -> String {
    match name.chars().count() {
        0..=14 => name.to_owned(),
        _ => name.chars().take(13).chain(['…']).collect(),
    }
}

/// Text for HTML and attributes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
