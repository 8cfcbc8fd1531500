//! `report`: the page about some runs, once or for as long as they go on.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;

use super::Failure;
use super::output::say;
use super::signal::{STOP, listen};
use crate::report;

/// Flags of `report`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportFlags {
    /// Run folders, or folders of them
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The page to write [default: report.html in the first folder]
    #[arg(long)]
    output: Option<PathBuf>,
    /// Its heading
    #[arg(long, default_value = "Semi-supervised training")]
    title: String,
    /// Show the page at http://127.0.0.1:<port>/ while runs go on, anew every few seconds; 0 for any free port
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "8017")]
    serve: Option<u16>,
    /// Seconds between two looks
    #[arg(long, default_value_t = 10, requires = "serve")]
    every: u32,
}

/// Writes the page, or serves it until Ctrl-C.
pub(crate) fn report(flags: &ReportFlags) -> Result<(), Failure> {
    if let Some(port) = flags.serve {
        return serve(flags, port);
    }
    let output = flags
        .output
        .clone()
        .unwrap_or_else(|| flags.runs[0].join("report.html"));
    report::write(&flags.title, &flags.runs, &output)?;
    say!("wrote {}", output.display());
    Ok(())
}

fn serve(flags: &ReportFlags, port: u16) -> Result<(), Failure> {
    let wrong = |e: std::io::Error| Failure::Input(format!("127.0.0.1:{port}: {e}"));
    // This machine only: logs are nobody else's business.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    let at = listener.local_addr().map_err(wrong)?;
    say!("http://{at}/ shows the runs; Ctrl-C ends");
    listen();
    while !STOP.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => answer(stream, flags),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    Ok(())
}

/// One request, whatever it asks for; somebody who hangs up is no failure of ours.
fn answer(stream: TcpStream, flags: &ReportFlags) {
    let patience = Some(Duration::from_secs(5));
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(patience);
    let _ = stream.set_write_timeout(patience);
    let mut lines = BufReader::new(&stream).lines();
    let wanted = lines.next().and_then(Result::ok).unwrap_or_default();
    for line in lines.map_while(Result::ok) {
        if line.is_empty() {
            break;
        }
    }
    let (status, body) = match wanted.split(' ').nth(1) {
        Some("/") => match report::read(&flags.runs) {
            Ok(runs) => (
                "200 OK",
                report::live_html(&flags.title, &runs, flags.every),
            ),
            Err(error) => {
                let again = format!("<meta http-equiv=\"refresh\" content=\"{}\">", flags.every);
                let text = error.to_string().replace('&', "&amp;").replace('<', "&lt;");
                ("200 OK", format!("<!doctype html>{again}<p>{text}</p>"))
            }
        },
        _ => ("404 Not Found", "there is only /".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = &stream;
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body.as_bytes()));
}
