//! Tables as text: features of anything, and lists of labels.
//!
//! ```text
//! width,height,label        a head line, names of the columns (none where all of the first line are numbers)
//! 1.5,2,cat                 features are numbers; the column `label`, `class`, `target` or `y`, else the last one, is the class
//! 0.3,4,                    no class: unlabeled
//! ```
//!
//! Fields may stand in double quotes, with `""` for a quote in them. A folder holds `train.csv`, and `test.csv` and `unlabeled.csv`
//! if there are any; of a single file, a fifth is held out for testing unless some of its lines have no class. Classes are numbered
//! in the order of their names, numbers in that of their values.

use std::path::Path;

use super::dataset::{Dataset, Part, Samples, Shape, UNLABELED};
use super::error::DataError;
use super::files::{locate, read_at_most};

const LIMIT: u64 = 1 << 33;
const HINT: &str = "Write one example a line: numbers, then its class (nothing where it has none), with commas between.";
const CLASS_COLUMNS: [&str; 4] = ["label", "class", "target", "y"];

/// The fields of every line that is not empty, with its number.
fn records(path: &Path) -> Result<Vec<(usize, Vec<String>)>, DataError> {
    let bytes = read_at_most(path, LIMIT, "a table with commas", HINT)?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let found = format!("other bytes at {}", e.utf8_error().valid_up_to());
        DataError::corrupt(path, "text in UTF-8", found, HINT)
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut line, mut begun) = (false, 1, 1);
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push((begun, std::mem::take(&mut row)));
                begun = line + 1;
            }
            '\r' if !quoted => {}
            c => field.push(c),
        }
        line += usize::from(c == '\n');
    }
    if quoted {
        let found = format!("none for the one in the record of line {begun}");
        return Err(DataError::corrupt(path, "a closing quote", found, HINT));
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push((begun, row));
    }
    rows.iter_mut()
        .for_each(|(_, row)| row.iter_mut().for_each(|f| *f = f.trim().to_owned()));
    rows.retain(|(_, row)| row.iter().any(|f| !f.is_empty()));
    Ok(rows)
}

/// Lines of two fields: a name and a class. A first line that says `file,label` or the like is skipped.
pub(super) fn pairs(path: &Path) -> Result<Vec<(String, String)>, DataError> {
    let mut rows = records(path)?;
    if let Some((_, head)) = rows.first()
        && head.len() == 2
        && CLASS_COLUMNS.contains(&head[1].to_lowercase().as_str())
    {
        rows.remove(0);
    }
    let pair = |(line, row): (usize, Vec<String>)| match <[String; 2]>::try_from(row) {
        Ok([name, class]) if !name.is_empty() && !class.is_empty() => Ok((name, class)),
        Ok(_) => Err(DataError::corrupt(
            path,
            "a file and its class on every line",
            format!("an empty field on line {line}"),
            "Leave out the lines of images without a class.",
        )),
        Err(row) => Err(DataError::corrupt(
            path,
            "a file and its class on every line",
            format!("{} fields on line {line}", row.len()),
            HINT,
        )),
    };
    let pairs: Vec<(String, String)> = rows.into_iter().map(pair).collect::<Result<_, _>>()?;
    if pairs.is_empty() {
        return Err(DataError::Empty {
            path: path.to_path_buf(),
            what: "no line of it names a file and a class".to_owned(),
        });
    }
    Ok(pairs)
}

/// A table: features, and a class (or nothing) for each line.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Features in a line.
    pub width: usize,
    /// Their values, line by line.
    pub features: Vec<f32>,
    /// The class of each line as written; empty for none.
    pub classes: Vec<String>,
}

/// Reads a table. With `width` given, lines of that many fields have no column for the class.
///
/// # Errors
/// When the file is missing, a line has another number of fields than the first, or a feature is no number.
pub fn read(path: &Path, width: Option<usize>) -> Result<Table, DataError> {
    let mut rows = records(path)?;
    let wrong = |expected: &str, found: String| DataError::corrupt(path, expected, found, HINT);
    let Some((_, first)) = rows.first() else {
        return Err(DataError::Empty {
            path: path.to_path_buf(),
            what: "there is no line in it".to_owned(),
        });
    };
    let columns = first.len();
    let is_number = |f: &String| f.is_empty() || f.parse::<f32>().is_ok();
    let classless = width == Some(columns);
    // The class may be a word: it does not make a line of numbers a head line.
    let head = !first[..columns - usize::from(!classless && columns > 1)]
        .iter()
        .all(is_number);
    let names: Vec<String> = match head {
        true => rows.remove(0).1.iter().map(|n| n.to_lowercase()).collect(),
        false => Vec::new(),
    };
    let class_column = match classless {
        true => None,
        false => {
            let named = names
                .iter()
                .position(|n| CLASS_COLUMNS.contains(&n.as_str()));
            Some(named.unwrap_or(columns - 1))
        }
    };
    let features = columns - usize::from(class_column.is_some());
    if features == 0 || width.is_some_and(|w| w != features) {
        let expected = width.map_or("at least one feature and a class".to_owned(), |w| {
            format!("{w} features, with or without a class")
        });
        return Err(wrong(&expected, format!("{columns} columns")));
    }
    let mut table = Table {
        width: features,
        features: Vec::with_capacity(rows.len() * features),
        classes: Vec::with_capacity(rows.len()),
    };
    for (line, row) in rows {
        if row.len() != columns {
            let expected = format!("{columns} fields on every line, as on the first");
            return Err(wrong(&expected, format!("{} on line {line}", row.len())));
        }
        for (column, field) in row.iter().enumerate() {
            if Some(column) == class_column {
                continue;
            }
            let value = field.parse::<f32>().map_err(|_| {
                let found = format!("`{field}` in column {} of line {line}", column + 1);
                wrong("numbers in every column but that of the class", found)
            })?;
            table.features.push(value);
        }
        let class = class_column.map_or("", |c| row[c].as_str());
        // What arrays use for the same.
        table.classes.push(match class {
            "-1" => String::new(),
            class => class.to_owned(),
        });
    }
    Ok(table)
}

/// Names of the classes: numbers in their order, else words in theirs.
fn classes(tables: &[&Table]) -> Vec<String> {
    let all = tables.iter().flat_map(|t| &t.classes);
    let mut names: Vec<String> = all.filter(|c| !c.is_empty()).cloned().collect();
    names.sort();
    names.dedup();
    if names.iter().all(|n| n.parse::<f64>().is_ok()) {
        let value = |n: &String| n.parse::<f64>().unwrap_or(f64::NAN);
        names.sort_by(|a, b| value(a).total_cmp(&value(b)));
    }
    names
}

fn part(table: Table, classes: &[String], origin: &Path) -> Result<Part, DataError> {
    let label = |class: &String| {
        let found = classes.iter().position(|c| c == class);
        found.map_or(UNLABELED, |at| at as u32)
    };
    let labels = table.classes.iter().map(label).collect();
    let shape = Shape::Table {
        features: table.width,
    };
    Part::new(shape, Samples::Features(table.features), labels, origin)
}

/// A set from one table or a folder of them.
///
/// # Errors
/// When a file is missing or malformed, or the tables do not fit together.
pub fn load(path: &Path) -> Result<Dataset, DataError> {
    let set = if path.is_dir() {
        let find = |name: &str| locate(path, &[name], "a table", HINT);
        let train = read(&find("train.csv")?, None)?;
        let width = Some(train.width);
        let optional = |name: &str| match find(name) {
            Ok(file) => read(&file, width).map(Some),
            Err(_) => Ok(None),
        };
        let (test, unlabeled) = (optional("test.csv")?, optional("unlabeled.csv")?);
        let both: Vec<&Table> = [Some(&train), test.as_ref()]
            .into_iter()
            .flatten()
            .collect();
        let classes = classes(&both);
        let mut train = part(train, &classes, path)?;
        if let Some(mut more) = unlabeled {
            more.classes.iter_mut().for_each(String::clear);
            train.append(part(more, &classes, path)?, path)?;
        }
        let test = match test {
            Some(test) => part(test, &classes, path)?,
            None => Part::none(train.shape()),
        };
        Dataset::new("csv", train, test, classes, path)?
    } else {
        let table = read(path, None)?;
        let classes = classes(&[&table]);
        let all = part(table, &classes, path)?;
        match all.known() < all.len() {
            true => {
                let none = Part::none(all.shape());
                Dataset::new("csv", all, none, classes, path)?
            }
            false => Dataset::hold_out("csv", &all, all.len().div_ceil(5), classes, path)?,
        }
    };
    Ok(set.with_source("a table of the user", "the user's own"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> std::path::PathBuf {
        let path =
            std::env::temp_dir().join(format!("earthmover-csv-{}-{name}", std::process::id()));
        assert!(std::fs::write(&path, text).is_ok());
        path
    }

    #[test]
    fn columns_classes_and_quotes() {
        let path = file(
            "a",
            "w,label,h\r\n1,cat,2\r\n\r\n3,\"a \"\"dog\"\", big\",4\r\n5,,6\r\n",
        );
        let table = read(&path, None);
        let Ok(table) = table else {
            unreachable!("{table:?}")
        };
        assert_eq!(table.features, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(table.classes, ["cat", "a \"dog\", big", ""]);
        let set = load(&path);
        let Ok(set) = set else {
            unreachable!("{set:?}")
        };
        assert_eq!(set.classes, ["a \"dog\", big", "cat"]);
        assert_eq!(set.train.labels(), [1, 0, UNLABELED]);
        assert!(set.test.is_empty());
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn numbers_without_a_head_line() {
        let path = file("b", "0.5,1,10\n0.25,2,9\n0.125,3,-1\n");
        let Ok(set) = load(&path) else { unreachable!() };
        assert_eq!(set.classes, ["9", "10"]);
        assert_eq!(set.train.labels(), [1, 0, UNLABELED]);
        // For a network that wants two features: with and without the class.
        assert!(read(&path, Some(2)).is_ok_and(|t| t.width == 2));
        assert!(read(&path, Some(3)).is_ok_and(|t| t.width == 3));
        assert!(read(&path, Some(4)).is_err());
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, told) in [
            ("1,2,a\n1,b\n", "2 on line 2"),
            ("1,2,a\n1,x,b\n", "`x` in column 2 of line 2"),
            ("1,\"2,a\n", "line 1"),
            ("a,label\nNaN,x\n1,y\n", "NaN"),
            ("\n\n", "no line"),
        ] {
            let path = file("c", text);
            let error = load(&path).map(|_| ()).map_err(|e| e.to_string());
            assert!(error.as_ref().is_err_and(|e| e.contains(told)), "{error:?}");
            let _ = std::fs::remove_file(path);
        }
    }
}
