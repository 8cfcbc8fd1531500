//! The page itself.

use std::fmt::Write;

use super::chart::{escape, matrix};
use super::series::{Series, group, seedless};
use super::table::{compare, mean_and_deviation};
use super::{dynamics, fidelity};
use crate::trainer::Recorded;

const STYLE: &str = "
body{font:15px/1.45 system-ui,sans-serif;color:#222;background:#fff;max-width:1180px;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.6rem;margin-bottom:.2rem} h2{font-size:1.15rem;margin:2.2rem 0 .6rem;border-bottom:1px solid #ddd;padding-bottom:.2rem}
p.note{color:#555;max-width:70ch} .grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(430px,1fr));gap:1rem 1.6rem}
figure{margin:0} svg{width:100%;height:auto;font:12px system-ui,sans-serif}
svg .t{font-size:14px;font-weight:600} svg .l{font-size:13px;fill:#333} svg .g{stroke:#e6e6e6} svg .a{stroke:#444;fill:none}
figcaption{font-size:13px;padding-left:3.2rem} .k{display:inline-block;margin-right:1.1rem} .k i{display:inline-block;width:22px;margin-right:6px;vertical-align:middle}
table{border-collapse:collapse;font-size:14px} th,td{text-align:left;padding:.28rem .8rem;border-bottom:1px solid #e4e4e4;vertical-align:top}
th{background:#f5f6f7} td.n{text-align:right;font-variant-numeric:tabular-nums} .wide{overflow-x:auto}
";

/// The whole page.
pub(super) fn page(title: &str, runs: &[Recorded], classes: &[String]) -> String {
    let series = group(runs);
    let mut s = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{0}</title><style>{STYLE}</style></head><body><h1>{0}</h1>",
        escape(title)
    );
    let seeds = series.iter().map(|g| g.runs.len()).max().unwrap_or(0);
    let _ = write!(
        s,
        "<p class=\"note\">{} runs in {} series. Test error is that of the averaged network at the end of \
         training, not the best on the way.{}</p>",
        runs.len(),
        series.len(),
        if seeds > 1 {
            " Curves are means over seeds, bands ± one standard deviation."
        } else {
            ""
        }
    );
    results(&mut s, runs);
    dynamics(&mut s, &series);
    for one in &series {
        scaling(&mut s, one, classes);
    }
    for one in &series {
        fidelity::section(&mut s, one);
    }
    confusion(&mut s, &series, classes);
    settings(&mut s, &series);
    s.push_str("</body></html>\n");
    s
}

fn results(s: &mut String, runs: &[Recorded]) {
    s.push_str(
        "<h2>Results</h2><div class=\"wide\"><table><tr><th>method</th><th>test error %</th><th>runs</th>\
         <th>each run %</th><th>allocated at the end %</th><th>label accuracy %</th><th>seconds</th><th>of which allocation %</th></tr>",
    );
    for row in compare(runs) {
        let (mean, deviation) = mean_and_deviation(&row.errors);
        let error = match row.errors.len() {
            0 => "not finished".to_owned(),
            1 => format!("{mean:.2}"),
            _ => format!("{mean:.2} ± {deviation:.2}"),
        };
        let each: Vec<String> = row.errors.iter().map(|e| format!("{e:.2}")).collect();
        let _ = write!(
            s,
            "<tr><td>{}</td><td class=\"n\">{error}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{:.1}</td>\
             <td class=\"n\">{:.1}</td><td class=\"n\">{:.1}</td><td class=\"n\">{:.2}</td></tr>",
            escape(&row.name),
            row.errors.len(),
            each.join("&ensp;"),
            row.allocated,
            row.label_accuracy,
            row.seconds,
            row.allocation
        );
    }
    s.push_str("</table></div><p class=\"note\">Label accuracy is the share of the allocated mass on the true class over the last tenth of training; the true labels of unlabeled examples are used for this figure only.</p>");
}

fn dynamics(s: &mut String, series: &[Series<'_>]) {
    s.push_str("<h2>Training dynamics</h2><div class=\"grid\">");
    for chart in dynamics::charts(series) {
        s.push_str(&chart.svg());
    }
    s.push_str("</div>");
}

fn scaling(s: &mut String, series: &Series<'_>, names: &[String]) {
    // Of several seeds the first: β of different splits do not average to anything.
    let Some(run) = series.runs.first() else {
        return;
    };
    let Some(classes) = dynamics::classes(run, names) else {
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
    if shown < k {
        let _ = write!(
            s,
            "<p class=\"note\">{shown} of {k} classes are shown: those whose β moved most.</p>"
        );
    }
}

fn confusion(s: &mut String, series: &[Series<'_>], names: &[String]) {
    s.push_str("<h2>Confusion on the test examples</h2><div class=\"grid\">");
    for one in series {
        let finals = one.runs.iter().filter_map(|r| r.evaluations.last());
        let mut sum: Vec<Vec<u32>> = Vec::new();
        let mut runs = 0;
        for evaluation in finals {
            runs += 1;
            if sum.is_empty() {
                sum.clone_from(&evaluation.confusion);
                continue;
            }
            for (to, from) in sum.iter_mut().zip(&evaluation.confusion) {
                to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
            }
        }
        if runs > 0 {
            let title = match runs {
                1 => one.name.clone(),
                n => format!("{}, sum of {n} runs", one.name),
            };
            s.push_str(&matrix(&title, &sum, names));
        }
    }
    s.push_str("</div>");
}

fn settings(s: &mut String, series: &[Series<'_>]) {
    s.push_str("<h2>Settings</h2><div class=\"wide\"><table><tr><th>setting</th>");
    for one in series {
        let _ = write!(s, "<th>{}</th>", escape(&one.name));
    }
    s.push_str("</tr>");
    let columns: Vec<serde_json::Value> = series
        .iter()
        .filter_map(|g| g.runs.first())
        .map(|r| serde_json::to_value(seedless(&r.settings)).unwrap_or_default())
        .collect();
    let Some(first) = columns.first().and_then(|c| c.as_object()) else {
        s.push_str("</table></div>");
        return;
    };
    let plain = |value: Option<&serde_json::Value>| match value {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(serde_json::Value::Null) | None => "–".to_owned(),
        Some(value) => value.to_string(),
    };
    // Where files lie and what the table's head says already are left out.
    for field in first
        .keys()
        .filter(|f| !["data", "seed", "keep"].contains(&f.as_str()))
    {
        let _ = write!(s, "<tr><td>{}</td>", escape(&field.replace('_', " ")));
        for column in &columns {
            let _ = write!(s, "<td>{}</td>", escape(&plain(column.get(field))));
        }
        s.push_str("</tr>");
    }
    let _ = write!(s, "<tr><td>seeds</td>");
    for one in series {
        let seeds: Vec<String> = one
            .runs
            .iter()
            .map(|r| r.settings.seed.to_string())
            .collect();
        let _ = write!(s, "<td>{}</td>", seeds.join(", "));
    }
    s.push_str("</tr></table></div>");
}
