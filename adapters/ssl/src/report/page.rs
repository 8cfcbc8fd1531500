//! The page itself.

use std::fmt::Write;

use super::chart::{escape, matrix};
use super::series::{Series, group};
use super::table::compare;
use super::{classes, dynamics, fidelity, settings};
use crate::trainer::{Recorded, Scores};

const STYLE: &str = "
body{font:15px/1.45 system-ui,sans-serif;color:#222;background:#fff;max-width:1180px;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.6rem;margin-bottom:.2rem} h2{font-size:1.15rem;margin:2.2rem 0 .6rem;border-bottom:1px solid #ddd;padding-bottom:.2rem}
p.note{color:#555;max-width:70ch} .grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(430px,100%),1fr));gap:1rem 1.6rem}
figure{margin:0} svg{width:100%;height:auto;font:12px system-ui,sans-serif}
svg .t{font-size:14px;font-weight:600} svg .l{font-size:13px;fill:#333} svg .g{stroke:#e6e6e6} svg .a{stroke:#444;fill:none}
figcaption{font-size:13px;padding-left:3.2rem} .k{display:inline-block;margin-right:1.1rem} .k i{display:inline-block;width:22px;margin-right:6px;vertical-align:middle}
table{border-collapse:collapse;font-size:14px} th,td{text-align:left;padding:.28rem .8rem;border-bottom:1px solid #e4e4e4;vertical-align:top}
@media(max-width:520px){body{padding:0 .7rem;margin:1rem auto} figcaption{padding-left:.4rem} th,td{padding:.25rem .4rem} svg{font-size:15px}}
p.warn{background:#fff4e0;border-left:4px solid #e69f00;padding:.4rem .8rem;max-width:80ch} th{background:#f5f6f7} td.n{text-align:right;font-variant-numeric:tabular-nums} .wide{overflow-x:auto}
";

/// The whole page.
pub(super) fn page(title: &str, runs: &[Recorded], reload: Option<u32>) -> String {
    let series = group(runs);
    let reload = reload.map_or(String::new(), |s| {
        format!("<meta http-equiv=\"refresh\" content=\"{s}\">")
    });
    let mut s = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\">{reload}<title>{0}</title><style>{STYLE}</style></head><body><h1>{0}</h1>",
        escape(title)
    );
    let seeds = series.iter().map(|g| g.runs.len()).max().unwrap_or(0);
    let _ = write!(
        s,
        "<p class=\"note\">{} in {} series. Errors are those of the averaged network at the end of \
         training, not the best on the way.{}</p>",
        match runs.len() {
            1 => "One run".to_owned(),
            n => format!("{n} runs"),
        },
        series.len(),
        if seeds > 1 {
            " Curves are means over seeds, bands ± one standard deviation."
        } else {
            ""
        }
    );
    remarks(&mut s, &series);
    results(&mut s, runs);
    dynamics(&mut s, &series);
    for one in &series {
        scaling(&mut s, one);
    }
    for one in &series {
        fidelity::section(&mut s, one);
    }
    confusion(&mut s, &series);
    for one in &series {
        classes::section(&mut s, one);
    }
    settings::section(&mut s, &series);
    s.push_str("</body></html>\n");
    s
}

/// What the reader should know first.
fn remarks(s: &mut String, series: &[Series<'_>]) {
    let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in series {
        let cards = one.runs.iter().filter_map(|r| r.data.as_ref());
        for remark in cards.flat_map(|card| &card.remarks) {
            match said.iter_mut().find(|(text, _)| text == remark) {
                Some((_, names)) if !names.contains(&one.name.as_str()) => names.push(&one.name),
                Some(_) => {}
                None => said.push((remark, vec![&one.name])),
            }
        }
    }
    for (text, names) in said {
        let of = match names.len() == series.len() {
            true => String::new(),
            false => format!("{}: ", names.join(", ")),
        };
        let _ = write!(s, "<p class=\"warn\">{}{}</p>", escape(&of), escape(text));
    }
}

fn results(s: &mut String, runs: &[Recorded]) {
    let mut on = runs.iter().filter_map(|r| r.summary.as_ref()).map(|m| m.on);
    let on = on.next_back().unwrap_or_default().name();
    let _ = write!(
        s,
        "<h2>Results</h2><div class=\"wide\"><table><tr><th>method</th><th>{on} error %</th><th>runs</th>\
         <th>each run %</th><th>balanced error %</th><th>macro-F1 %</th><th>calibration error %</th>\
         <th>allocated at the end %</th><th>label accuracy %</th><th>seconds</th><th>of which allocation %</th></tr>",
    );
    for (row, series) in compare(runs).iter().zip(group(runs)) {
        let each: Vec<String> = row.errors.iter().map(|e| format!("{e:.2}")).collect();
        let scores: Vec<&Scores> = series
            .runs
            .iter()
            .filter_map(|r| r.evaluations.last()?.scores.as_ref())
            .collect();
        let mean = |value: &dyn Fn(&Scores) -> f64| match scores.len() {
            0 => "–".to_owned(),
            n => format!(
                "{:.2}",
                100.0 * scores.iter().map(|s| value(s)).sum::<f64>() / n as f64
            ),
        };
        let _ = write!(
            s,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{:.1}</td><td class=\"n\">{:.2}</td></tr>",
            escape(&row.name),
            row.error_text(),
            row.finished,
            each.join("&ensp;"),
            mean(&|s| 1.0 - s.balanced_accuracy),
            mean(&|s| s.macro_f1),
            mean(&|s| s.calibration_error),
            row.allocated,
            row.label_accuracy_text(),
            row.seconds,
            row.allocation
        );
    }
    s.push_str("</table></div><p class=\"note\">Allocated at the end: the share of all unlabeled examples after the last step for SLA, \
        of the batches of the last tenth of training for methods that see batches only. Label accuracy is the share of the allocated mass on the \
        true class over the last tenth; the true labels of unlabeled examples, where they are known, are used for this figure only.</p>");
}

fn dynamics(s: &mut String, series: &[Series<'_>]) {
    s.push_str("<h2>Training dynamics</h2><div class=\"grid\">");
    for chart in dynamics::charts(series) {
        s.push_str(&chart.svg());
    }
    s.push_str("</div>");
}

fn scaling(s: &mut String, series: &Series<'_>) {
    // Of several seeds the first: β of different splits do not average to anything.
    let Some(run) = series.runs.first() else {
        return;
    };
    let Some(classes) = dynamics::classes(run, series.class_names()) else {
        return;
    };
    let _ = write!(
        s,
        "<h2>Classes: {}, seed {}</h2><div class=\"grid\">",
        escape(&series.name),
        run.settings.seed
    );
    for chart in &classes.charts {
        s.push_str(&chart.svg());
    }
    s.push_str("</div>");
    let (shown, k) = classes.shown;
    let has_beta = run.classes.iter().any(|c| c.scaling.is_some());
    if shown < k {
        let _ = write!(
            s,
            "<p class=\"note\">{shown} of {k} classes are shown: those {}.</p>",
            if has_beta {
                "whose β moved most"
            } else {
                "with the largest shares"
            }
        );
    }
}

fn confusion(s: &mut String, series: &[Series<'_>]) {
    let mut pictures = String::new();
    for one in series {
        let (sum, runs) = classes::confusion(one);
        if runs > 0 {
            let title = match runs {
                1 => one.name.clone(),
                n => format!("{}, sum of {n} runs", one.name),
            };
            pictures.push_str(&matrix(&title, &sum, one.class_names()));
        }
    }
    if !pictures.is_empty() {
        let _ = write!(s, "<h2>Confusion</h2><div class=\"grid\">{pictures}</div>");
    }
}
