//! Class by class: how many labels, what was allocated, how well it is told apart.

use std::fmt::Write;

use super::chart::escape;
use super::series::Series;

/// Tables of more classes are folded.
const OPEN: usize = 30;

/// The confusion matrices at the end of the runs, summed, and how many there are.
pub(super) fn confusion(series: &Series<'_>) -> (Vec<Vec<u32>>, usize) {
    let mut sum: Vec<Vec<u32>> = Vec::new();
    let mut runs = 0;
    for evaluation in series.runs.iter().filter_map(|r| r.evaluations.last()) {
        runs += 1;
        if sum.is_empty() {
            sum.clone_from(&evaluation.confusion);
            continue;
        }
        for (to, from) in sum.iter_mut().zip(&evaluation.confusion) {
            to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        }
    }
    (sum, runs)
}

/// The table of a series; of several seeds, labels and shares are those of the first.
pub(super) fn section(s: &mut String, series: &Series<'_>) {
    let Some(run) = series.runs.first() else {
        return;
    };
    let Some(card) = &run.data else { return };
    let (counts, runs) = confusion(series);
    let trace = run.classes.last();
    let _ = write!(
        s,
        "<details{}><summary><b>Class by class: {}</b></summary><div class=\"wide\"><table><tr><th>class</th><th>labels</th>\
         <th>allocated %</th><th>β</th><th>examples judged</th><th>recall %</th><th>precision %</th><th>F1 %</th>\
         <th>most often taken for</th></tr>",
        if card.classes.len() <= OPEN {
            " open"
        } else {
            ""
        },
        escape(&series.name)
    );
    let percent = |part: u32, whole: u32| match whole {
        0 => "–".to_owned(),
        _ => format!("{:.1}", 100.0 * f64::from(part) / f64::from(whole)),
    };
    for (j, name) in card.classes.iter().enumerate() {
        let labels = card.labeled.get(j).copied().unwrap_or(0);
        let share = trace.and_then(|t| t.shares.get(j));
        let share = share.map_or("–".to_owned(), |x| format!("{:.1}", 100.0 * x));
        let beta = trace.and_then(|t| t.scaling.as_ref()?.get(j).copied());
        let beta = beta.map_or("–".to_owned(), |b| format!("{b:.2}"));
        let _ = write!(
            s,
            "<tr><td>{}</td><td class=\"n\">{labels}</td><td class=\"n\">{share}</td><td class=\"n\">{beta}</td>",
            escape(name)
        );
        let row = counts.get(j).filter(|_| runs > 0);
        let there: u32 = row.map_or(0, |r| r.iter().sum());
        let right = row.and_then(|r| r.get(j)).copied().unwrap_or(0);
        let predicted: u32 = counts.iter().filter_map(|r| r.get(j)).sum();
        let others = row
            .into_iter()
            .flatten()
            .enumerate()
            .filter(|(i, _)| *i != j);
        let wrong = others.max_by_key(|(i, count)| (**count, usize::MAX - i));
        let wrong = wrong
            .filter(|(_, count)| **count > 0)
            .map_or(String::new(), |(i, n)| {
                format!("{} ({n})", card.classes.get(i).map_or("", String::as_str))
            });
        let _ = write!(
            s,
            "<td class=\"n\">{there}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            percent(right, there),
            percent(right, predicted),
            percent(2 * right, there + predicted),
            escape(&wrong)
        );
    }
    s.push_str("</table></div></details>");
}
