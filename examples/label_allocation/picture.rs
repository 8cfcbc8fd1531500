//! The allocation as ρ grows, as a hand-written SVG: what each class gets, and how much of it is right.

#![allow(unreachable_pub)]

use std::fmt::Write;

/// One point of the curves.
pub struct Moment {
    /// Share asked for.
    pub rho: f64,
    /// Share of all examples that each class got.
    pub shares: Vec<f64>,
    /// Right labels, in percent of those given.
    pub right: Option<f64>,
    /// The same for the equally many most confident argmax labels.
    pub argmax_right: Option<f64>,
}

const COLOURS: [&str; 10] = [
    "#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#ff9da7",
    "#9c755f", "#bab0ac",
];
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 300.0;

/// A panel: its left edge and the range of its vertical axis.
struct Panel {
    left: f64,
    low: f64,
    high: f64,
}

impl Panel {
    fn x(&self, rho: f64) -> f64 {
        self.left + rho * WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        60.0 + HEIGHT * (1.0 - (value - self.low) / (self.high - self.low))
    }

    fn axes(&self, out: &mut String, title: &str, label: &str, ticks: &[(f64, String)]) {
        let (bottom, right) = (self.y(self.low), self.left + WIDTH);
        for (value, text) in ticks {
            let y = self.y(*value);
            line(out, (self.left, y), (right, y), "#e4e4e0");
            text_at(out, (self.left - 8.0, y + 4.0), "end", 12, text);
        }
        for step in 0..=5 {
            let rho = f64::from(step) / 5.0;
            let x = self.x(rho);
            line(out, (x, bottom), (x, bottom + 5.0), "#555");
            text_at(out, (x, bottom + 20.0), "middle", 12, &format!("{rho:.1}"));
        }
        line(out, (self.left, bottom), (right, bottom), "#555");
        text_at(
            out,
            (self.left + WIDTH / 2.0, bottom + 42.0),
            "middle",
            13,
            "allocated share asked for, ρ",
        );
        text_at(out, (self.left + WIDTH / 2.0, 40.0), "middle", 15, title);
        let (x, y) = (self.left - 48.0, 60.0 + HEIGHT / 2.0);
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"13\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">{label}</text>"
        );
    }

    fn curve(&self, out: &mut String, points: &[(f64, f64)], colour: &str, dash: &str) {
        let path: Vec<String> = points
            .iter()
            .map(|(rho, value)| format!("{:.1},{:.1}", self.x(*rho), self.y(*value)))
            .collect();
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.2\" stroke-dasharray=\"{dash}\" points=\"{}\"/>",
            path.join(" ")
        );
    }
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = writeln!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text_at(out: &mut String, at: (f64, f64), anchor: &str, size: u32, text: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{text}</text>",
        at.0, at.1
    );
}

/// The whole picture.
pub fn draw(curve: &[Moment]) -> String {
    let mut out = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1000\" height=\"430\" font-family=\"sans-serif\" fill=\"#222\">\n\
         <rect width=\"1000\" height=\"430\" fill=\"#fdfdfb\"/>\n",
    );
    let percent = |values: &[f64]| -> Vec<(f64, String)> {
        values.iter().map(|v| (*v, format!("{v:.0}%"))).collect()
    };
    let left = Panel {
        left: 80.0,
        low: 0.0,
        high: 100.0,
    };
    left.axes(
        &mut out,
        "What each digit is given",
        "share of all examples",
        &percent(&[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]),
    );
    let classes = curve.first().map_or(0, |m| m.shares.len());
    let below = |m: &Moment, class: usize| 100.0 * m.shares[..class].iter().sum::<f64>();
    for class in 0..classes {
        let point = |m: &Moment, class: usize| {
            format!("{:.1},{:.1}", left.x(m.rho), left.y(below(m, class)))
        };
        let mut outline: Vec<String> = curve.iter().map(|m| point(m, class)).collect();
        outline.extend(curve.iter().rev().map(|m| point(m, class + 1)));
        let _ = writeln!(
            out,
            "<polygon fill=\"{}\" stroke=\"#fdfdfb\" stroke-width=\"0.8\" points=\"{}\"/>",
            COLOURS[class % 10],
            outline.join(" ")
        );
        if let Some(last) = curve.last() {
            let middle = 0.5 * (below(last, class) + below(last, class + 1));
            text_at(
                &mut out,
                (left.x(1.0) + 8.0, left.y(middle) + 4.0),
                "start",
                12,
                &class.to_string(),
            );
        }
    }
    let right = Panel {
        left: 560.0,
        low: 50.0,
        high: 100.0,
    };
    right.axes(
        &mut out,
        "How many of the labels are right",
        "right labels, of those given",
        &percent(&[50.0, 60.0, 70.0, 80.0, 90.0, 100.0]),
    );
    let series = |pick: fn(&Moment) -> Option<f64>| -> Vec<(f64, f64)> {
        curve
            .iter()
            .filter_map(|m| Some((m.rho, pick(m)?)))
            .collect()
    };
    right.curve(&mut out, &series(|m| m.argmax_right), "#9a9a95", "6 4");
    right.curve(&mut out, &series(|m| m.right), "#c0392b", "");
    for (row, (text, colour, dash)) in [
        ("allocated labels", "#c0392b", ""),
        ("as many, most confident argmax", "#9a9a95", "6 4"),
    ]
    .iter()
    .enumerate()
    {
        let rho = [
            (0.04, 54.0 + 4.0 * row as f64),
            (0.14, 54.0 + 4.0 * row as f64),
        ];
        right.curve(&mut out, &rho, colour, dash);
        text_at(
            &mut out,
            (right.x(0.16), right.y(rho[0].1) + 4.0),
            "start",
            12,
            text,
        );
    }
    out.push_str("</svg>\n");
    out
}
