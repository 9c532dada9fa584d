import JSONText
package import SyncModel

/// The results of an operation so far, or of a part of it.
package struct OperationTally: Sendable, Hashable {
    /// The number of settled mutations.
    package var done: Int64 = 0
    /// The number of mutations that stay unchanged because they cannot be settled in this way.
    package private(set) var skipped: Int64 = 0
    /// The number of mutations whose settling failed because of an error of the gateway.
    package private(set) var failed: Int64 = 0
    /// The reasons of skipped and failed mutations, by the problem's code.
    package private(set) var reasons: [ByteExactString: Int64] = [:]

    package init() {}

    package mutating func skip(_ code: ProblemCode, _ count: Int64 = 1) {
        guard count > 0 else { return }
        skipped += count
        reasons[code.rawValue, default: 0] += count
    }

    package mutating func fail(_ code: ProblemCode, _ count: Int64) {
        failed += count
        reasons[code.rawValue, default: 0] += count
    }

    package mutating func add(_ other: OperationTally) {
        done += other.done
        skipped += other.skipped
        failed += other.failed
        reasons.merge(other.reasons, uniquingKeysWith: +)
    }

    // MARK: - Stored reasons

    /// `{"code": count}`
    package static func reasons(stored json: [UInt8]) -> [ByteExactString: Int64] {
        guard let members = try? JSONTree(parsing: json).root.members else { return [:] }
        return Dictionary(members.map { (ByteExactString($0.name.string), $0.value.int64 ?? 0) }) { $1 }
    }

    /// The stored form of reasons.
    package static func json(of reasons: [ByteExactString: Int64]) -> [UInt8] {
        JSONWriter.object { writer in
            for (code, count) in reasons.sorted(by: { $0.key < $1.key }) {
                writer.name(code)
                writer.int(count)
            }
        }
    }
}

/// The pace of an operation: never above its limit over the whole run, and no faster after a delay.
package struct OperationPace: Sendable {
    /// The maximum number of mutations that one step reads.
    package static let batch = 50

    private let perSecond: Double

    package init(perSecond: Int) {
        self.perSecond = Double(max(1, perSecond))
    }

    /// The maximum number of mutations of the next step: the number for one second, or ``batch``.
    package var limit: Int { max(1, min(Int(perSecond), Self.batch)) }

    /// Seconds to pause after a step.
    ///
    /// - Parameters:
    ///   - count: the number of mutations that the step settled.
    ///   - seconds: the duration of the step.
    package func pause(after count: Int, in seconds: Double) -> Double {
        max(0, Double(count) / perSecond - seconds)
    }
}
