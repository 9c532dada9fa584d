package import Foundation

/// The seed of a random test: `SLUICE_TEST_SEED`, or a new number. Every expectation's message contains it.
package struct Seed: CustomStringConvertible {
    package let value: UInt64
    package var description: String { "SLUICE_TEST_SEED=\(value)" }
    package var generator: SeededRandom { SeededRandom(value) }

    package init() {
        value = ProcessInfo.processInfo.environment["SLUICE_TEST_SEED"].flatMap(UInt64.init) ?? .random(in: 1 ... .max)
    }
}

extension UUID {
    /// Returns a random id of the version that the gateway gives to users of subjects.
    package static func version8() -> UUID {
        var bytes = UUID().uuid
        bytes.6 = 0x80 | bytes.6 & 0x0f
        return UUID(uuid: bytes)
    }
}
