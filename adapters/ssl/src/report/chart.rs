//! Line charts and matrices as SVG text.

use std::fmt::Write;

use super::axis::{Axis, Scale};

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
#[derive(Clone, Debug, Default)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) curves: Vec<Curve>,
    pub(super) x_scale: Scale,
    pub(super) y_scale: Scale,
    /// Names at the ends of the lines in place of a legend.
    pub(super) named_ends: bool,
}

pub(super) const WIDTH: f64 = 560.0;
pub(super) const HEIGHT: f64 = 340.0;
const LEFT: f64 = 66.0;
pub(super) const RIGHT: f64 = 22.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 50.0;
/// Room for names at the ends of lines, and from one to the next.
const NAMES: f64 = 96.0;
const APART: f64 = 13.0;
/// Curves of at most so many points show them.
const DOTS: usize = 8;

/// The frame of a plot: where a value lies, and its axes as SVG.
pub(super) struct Frame {
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Room to the right of the plot.
    pub(super) right: f64,
}

impl Frame {
    pub(super) fn px(&self, value: f64) -> f64 {
        LEFT + (WIDTH - LEFT - self.right) * self.x.place(value)
    }

    pub(super) fn py(&self, value: f64) -> f64 {
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - self.y.place(value))
    }

    /// Title, grid, ticks and labels; `x_ticks` of its own where the axis is one of names.
    pub(super) fn svg(
        &self,
        title: &str,
        labels: (&str, &str),
        x_ticks: Option<&[(f64, String)]>,
    ) -> String {
        let (w, h) = (WIDTH - LEFT - self.right, HEIGHT - TOP - BOTTOM);
        let mut s = format!(
            r#"<text class="t" x="{:.1}" y="18" text-anchor="middle">{}</text>"#,
            LEFT + w / 2.0,
            escape(title),
        );
        for (value, text) in self.y.ticks() {
            let at = self.py(value);
            let _ = write!(
                s,
                r#"<line class="g" x1="{LEFT}" y1="{at:.1}" x2="{:.1}" y2="{at:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{text}</text>"#,
                WIDTH - self.right,
                LEFT - 6.0,
                at + 4.0
            );
        }
        let floor = HEIGHT - BOTTOM;
        let own = self.x.ticks();
        for (value, text) in x_ticks.unwrap_or(&own) {
            let at = self.px(*value);
            let _ = write!(
                s,
                r#"<line class="a" x1="{at:.1}" y1="{floor}" x2="{at:.1}" y2="{:.1}"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                floor + 4.0,
                floor + 17.0,
                escape(text)
            );
        }
        let _ = write!(
            s,
            r#"<path class="a" d="M{LEFT} {TOP}V{floor}H{:.1}"/><text class="l" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text><text class="l" transform="translate(16 {:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
            WIDTH - self.right,
            LEFT + w / 2.0,
            HEIGHT - 12.0,
            escape(labels.0),
            TOP + h / 2.0,
            escape(labels.1)
        );
        s
    }
}

/// A name of a legend and how its curve looks.
pub(super) struct Key {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) dashed: bool,
}

impl Chart {
    /// The SVG element, legend below it.
    pub(super) fn svg(&self) -> String {
        let mut s = format!(
            r#"<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">{}</svg><figcaption>"#,
            escape(&self.title),
            self.body()
        );
        for key in self.keys().iter().filter(|_| !self.named_ends) {
            let style = if key.dashed { "dashed" } else { "solid" };
            let _ = write!(
                s,
                r#"<span class="k"><i style="border-top:3px {style} {}"></i>{}</span>"#,
                key.colour,
                escape(&key.name)
            );
        }
        s.push_str("</figcaption></figure>");
        s
    }

    /// The legend.
    pub(super) fn keys(&self) -> Vec<Key> {
        let keys = self.curves.iter().enumerate().map(|(index, curve)| {
            let index = curve.colour.unwrap_or(index);
            Key {
                name: curve.name.clone(),
                colour: COLOURS[index % COLOURS.len()],
                dashed: curve.dashed || index >= COLOURS.len(),
            }
        });
        keys.collect()
    }

    /// What is inside the SVG element.
    pub(super) fn body(&self) -> String {
        let shown = |p: &&(f64, f64)| self.x_scale.shows(p.0) && self.y_scale.shows(p.1);
        let points = || {
            self.curves
                .iter()
                .flat_map(|c| c.points.iter())
                .filter(shown)
        };
        let bands = self.curves.iter().flat_map(|c| &c.band);
        let heights = points().map(|p| p.1);
        let heights = heights.chain(bands.flat_map(|b| [b.1, b.2]));
        let frame = Frame {
            x: Axis::scaled(self.x_scale, points().map(|p| p.0)),
            y: Axis::scaled(self.y_scale, heights),
            right: if self.named_ends { NAMES } else { RIGHT },
        };
        let mut s = frame.svg(&self.title, (self.x, self.y), None);
        for (curve, key) in self.curves.iter().zip(self.keys()) {
            let colour = key.colour;
            let path = |points: &mut dyn Iterator<Item = (f64, f64)>| {
                let mut d = String::new();
                for (i, (x, y)) in points.enumerate() {
                    let letter = if i == 0 { 'M' } else { 'L' };
                    let _ = write!(d, "{letter}{:.1} {:.1}", frame.px(x), frame.py(y));
                }
                d
            };
            if !curve.band.is_empty() {
                let up = curve.band.iter().map(|b| (b.0, b.2));
                let down = curve.band.iter().rev().map(|b| (b.0, b.1));
                let d = path(&mut up.chain(down));
                let _ = write!(s, r#"<path d="{d}Z" fill="{colour}" opacity="0.15"/>"#);
            }
            let points: Vec<(f64, f64)> = curve.points.iter().filter(shown).copied().collect();
            let d = path(&mut points.iter().copied());
            let dash = if key.dashed {
                r#" stroke-dasharray="5 3""#
            } else {
                ""
            };
            let _ = write!(
                s,
                r#"<path d="{d}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"{dash}/>"#
            );
            if points.len() <= DOTS {
                for (x, y) in points {
                    let _ = write!(
                        s,
                        r#"<circle cx="{:.1}" cy="{:.1}" r="3" fill="{colour}"/>"#,
                        frame.px(x),
                        frame.py(y)
                    );
                }
            }
        }
        if self.named_ends {
            self.names(&frame, &mut s);
        }
        s
    }

    /// The name of each curve where it ends, moved apart where ends are close.
    fn names(&self, frame: &Frame, s: &mut String) {
        let shown = |p: &&(f64, f64)| self.x_scale.shows(p.0) && self.y_scale.shows(p.1);
        let mut ends: Vec<(f64, f64, Key)> = Vec::new();
        for (curve, key) in self.curves.iter().zip(self.keys()) {
            if let Some(&(_, y)) = curve.points.iter().rfind(shown) {
                ends.push((frame.py(y), frame.py(y), key));
            }
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let lowest = HEIGHT - BOTTOM + 4.0;
        for i in 1..ends.len() {
            ends[i].1 = ends[i].1.max(ends[i - 1].1 + APART);
        }
        if let Some(last) = ends.last_mut() {
            last.1 = last.1.min(lowest);
        }
        for i in (0..ends.len().saturating_sub(1)).rev() {
            ends[i].1 = ends[i].1.min(ends[i + 1].1 - APART);
        }
        let x = WIDTH - frame.right;
        for (from, to, key) in ends {
            let _ = write!(
                s,
                r#"<path d="M{:.1} {from:.1}L{:.1} {to:.1}" stroke="{}" fill="none" opacity="0.5"/><text x="{:.1}" y="{:.1}" style="fill:{}">{}</text>"#,
                x + 1.0,
                x + 10.0,
                key.colour,
                x + 13.0,
                to + 4.0,
                key.colour,
                escape(&short(&key.name))
            );
        }
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
        34.0
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
                r##"<rect x="{x:.1}" y="{y:.1}" width="{cell:.1}" height="{cell:.1}" fill="rgba({colour},{strength:.3})" stroke="{}">"##,
                if shown { "#fff" } else { "none" }
            );
            // What a cell is about, for whoever points at it.
            if count > 0 {
                let name = |j: usize| escape(names.get(j).map_or("", String::as_str));
                let _ = write!(s, "<title>{} as {}: {count}</title>", name(i), name(j));
            }
            s.push_str("</rect>");
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
        if !shown && i % ticks(k) == 0 {
            let (at, x) = (y + cell / 2.0 + 4.0, left + cell * (i as f64 + 0.5));
            let below = top + cell * k as f64 + 13.0;
            let _ = write!(
                s,
                r#"<text x="{:.1}" y="{at:.1}" text-anchor="end">{i}</text><text x="{x:.1}" y="{below:.1}" text-anchor="middle">{i}</text>"#,
                left - 4.0
            );
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

/// Classes from tick to tick where there are too many to name.
fn ticks(classes: usize) -> usize {
    match classes {
        0..=50 => 5,
        51..=100 => 10,
        n => n.div_ceil(10).next_multiple_of(10),
    }
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
