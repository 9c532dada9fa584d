import Foundation
import Testing

/// Six phones of two users edit the same entities, in all three id spaces.
///
/// The phones are offline, or the network loses, cuts and repeats messages. Processes are killed, clocks jump, and
/// files are restored from backups. With `SLUICE_PHONES_DISASTERS` phones also delete rows to which others refer, the
/// gateway is restored, a phone is lost, and phones are set up from one backup. In the end all phones show the same
/// state, and every write took effect once and in order, or is shown as open.
///
/// `make chaos PHONES=1` runs for longer (`scripts/chaos-phones --help`).
@Suite(.serialized) struct ConvergenceTests {
    private static let environment = ProcessInfo.processInfo.environment

    /// The store in which writes take effect.
    enum Place: String, CaseIterable {
        case builtInStore = "store"
        case demoUpstream = "upstream"

        /// All stores, or the requested store.
        static let chosen =
            environment["SLUICE_PHONES_PLACE"].map { place in allCases.filter { $0.rawValue == place } }
            ?? allCases
    }

    @Test(arguments: Place.chosen)
    func `six phones converge over an unreliable network`(_ place: Place) async throws {
        let steps = Self.environment["SLUICE_PHONES_STEPS"].flatMap { Int($0) } ?? 60
        let seed = Self.environment["SLUICE_PHONES_SEED"].flatMap { UInt64($0) } ?? .random(in: 1...1_000_000)
        note("phones: \(place.rawValue), seed \(seed), \(steps) steps")
        let fleet = try await Fleet(
            seed: seed,
            forwards: place == .demoUpstream,
            hasDisasters: Self.environment["SLUICE_PHONES_DISASTERS"] != nil
        )
        try await fleet.run(steps: steps)
        // before any settlement, failed mutations are shown
        let disagreements = try await fleet.disagreements()
        #expect(disagreements == [], "seed \(seed)")
        try await fleet.settle()
        let complaints = try await fleet.complaints()
        #expect(complaints == [], "seed \(seed)")
        if disagreements.isEmpty && complaints.isEmpty && Self.environment["SLUICE_PHONES_KEEP"] == nil {
            fleet.remove()
        }
    }
}

/// A generator whose numbers depend only on the seed.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

extension Array {
    func asyncMap<Result>(_ transform: (Element) async throws -> Result) async rethrows -> [Result] {
        var results: [Result] = []
        for element in self { results.append(try await transform(element)) }
        return results
    }
}

/// Prints the progress of a long test immediately.
func note(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }
