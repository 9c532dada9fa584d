import Glibc

extension PrometheusRegistry {
    /// Adds the standard metrics of a process. Each scrape reads their values from the kernel.
    ///
    /// Common Prometheus dashboards use these metrics: `process_cpu_seconds_total`, `process_resident_memory_bytes`,
    /// `process_start_time_seconds`, `process_open_fds` and `process_max_fds`. Metrics that cannot be read are omitted.
    package func addProcessMetrics() {
        addCounter("process_cpu_seconds_total", "User and system CPU time spent, in seconds.", ProcessMetrics.cpuTime)
        addGauge("process_resident_memory_bytes", "Resident memory size, in bytes.", ProcessMetrics.residentMemory)
        let startTime = ProcessMetrics.startTime()
        addGauge("process_start_time_seconds", "Start of the process, in seconds since 1970.") { startTime }
        addGauge("process_open_fds", "Number of open file descriptors.", ProcessMetrics.openFiles)
        addGauge("process_max_fds", "Maximum number of open file descriptors.", ProcessMetrics.maximumFiles)
    }
}

/// Values of this process from the kernel; nil if the kernel does not provide them.
enum ProcessMetrics {
    /// The CPU time in seconds. The source is the process clock, because /proc/self/stat has a resolution of only 10
    /// ms.
    @Sendable static func cpuTime() -> Double? {
        var time = timespec()
        guard clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0 else { return nil }
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// The resident memory in bytes. The second number of /proc/self/statm is the number of resident pages.
    @Sendable static func residentMemory() -> Double? {
        guard let fields = contents(of: "/proc/self/statm")?.split(separator: " "), fields.count > 1,
            let pages = Double(fields[1])
        else { return nil }
        return pages * Double(sysconf(Int32(_SC_PAGESIZE)))
    }

    /// The start time of the process, in seconds since 1970.
    ///
    /// The start time is the sum of the machine's boot time and field 22 of /proc/self/stat, which is the number of
    /// ticks since boot.
    static func startTime() -> Double? {
        guard let stat = contents(of: "/proc/self/stat"), let boot = bootTime() else { return nil }
        // The second field is the program's name in parentheses. The name may itself contain spaces and parentheses.
        guard let nameEnd = stat.lastIndex(of: ")") else { return nil }
        let fields = stat[nameEnd...].split(separator: " ")
        guard fields.count > 20, let ticks = Double(fields[20]) else { return nil }
        return boot + ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    @Sendable static func openFiles() -> Double? {
        guard let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        var entries = 0
        while readdir(folder) != nil { entries += 1 }
        // `.`, `..` and the descriptor that reads the folder are not counted.
        return Double(entries - 3)
    }

    @Sendable static func maximumFiles() -> Double? {
        let limit = sysconf(Int32(_SC_OPEN_MAX))
        return limit < 0 ? nil : Double(limit)
    }

    private static func bootTime() -> Double? {
        guard let lines = contents(of: "/proc/stat")?.split(separator: "\n"),
            let line = lines.first(where: { $0.hasPrefix("btime ") })
        else { return nil }
        return Double(line.dropFirst("btime ".count))
    }

    private static func contents(of path: String) -> String? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = read(file, &chunk, chunk.count)
            guard count > 0 else { return count == 0 ? String(decoding: bytes, as: UTF8.self) : nil }
            bytes.append(contentsOf: chunk[..<count])
        }
    }
}
