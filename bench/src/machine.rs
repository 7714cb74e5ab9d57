//! What the operating system says of processes.

use std::{fs, io};

/// Peak resident memory of this process, in bytes.
pub(crate) fn peak_memory_bytes() -> u64 {
    peak_memory_bytes_of("self")
}

/// Peak resident memory of a process, in bytes; 0 once it has ended.
pub(crate) fn peak_memory_bytes_of(process: &str) -> u64 {
    status_kib(process, "VmHWM:") * 1_024
}

/// From now on the peak of a process is the greatest since now.
pub(crate) fn forget_peak_memory_of(process: &str) -> io::Result<()> {
    fs::write(format!("/proc/{process}/clear_refs"), "5")
}

/// Resident memory of this process now, in bytes.
pub(crate) fn memory_bytes() -> u64 {
    status_kib("self", "VmRSS:") * 1_024
}

fn status_kib(process: &str, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Processor time that this process has used, in seconds: user and system.
pub(crate) fn cpu_seconds() -> f64 {
    cpu_seconds_of("self")
}

/// Processor time that a process has used, in seconds.
pub(crate) fn cpu_seconds_of(process: &str) -> f64 {
    // Fields 14 and 15, behind the name in parentheses, in ticks of 1/100 s.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let Some((_, fields)) = stat.rsplit_once(')') else { return 0.0 };
    let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Processor and number of cores, in a line.
pub(crate) fn describe() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores of {}", model.unwrap_or("an unnamed processor"))
}
