import Foundation

/// Files of master keys for tests.
package enum TestKeys {
    /// One line a key.
    package static let first = "first:" + hex(1)
    /// Another key.
    package static let second = "second:" + hex(101)
    /// Another key that is called like the first.
    package static let impostor = "first:" + hex(53)

    /// With `SLUICE_TEST_SEALED` every gateway of the tests seals what it stores: whatever holds of plain rows must hold
    /// of sealed ones.
    package static let ofEnvironment = ProcessInfo.processInfo.environment["SLUICE_TEST_SEALED"].map { _ in first }

    private static func hex(_ start: Int) -> String {
        (0..<32).map { index in
            let byte = (start + index * 7) % 256
            return (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }
}
