import Foundation
import GRDB
import SluiceClient

/// Pulls everything, on a phone without data.
struct FirstPull {
    private let phone: Phone

    init(_ options: Options) throws { phone = try Phone(options.gateway, token: options.token) }

    func figures() async throws -> Figures {
        let before = Self.peakMemory
        let cpu = Clock.cpu
        let seconds = try await Clock.seconds { try await phone.synchronize() }
        var figures = Figures()
        figures.add("first_pull_rows", Double(try await phone.database.read { try Note.fetchCount($0) }))
        figures.add("first_pull_seconds", seconds)
        figures.add("first_pull_own_cpu_seconds", Clock.cpu - cpu)
        figures.add("first_pull_peak_megabytes", Self.peakMemory)
        figures.add("first_pull_megabytes_before", before)
        return figures
    }

    /// The most memory that this process ever held, in 10^6 bytes.
    private static var peakMemory: Double {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        let kilobytes = line.flatMap { Double($0.split(whereSeparator: \.isWhitespace)[1]) } ?? 0
        return kilobytes * 1_024 / 1e6
    }
}
