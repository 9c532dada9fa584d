import Foundation

/// Files of master keys for tests.
package enum TestKeys {
    /// One line per key.
    package static let first = "first:" + hex(1)
    /// Another key.
    package static let second = "second:" + hex(101)
    /// Another key with the name of the first.
    package static let impostor = "first:" + hex(53)

    /// With `SLUICE_TEST_SEALED` every gateway of the tests seals its rows: tests of plain rows must also pass for
    /// sealed ones.
    package static let ofEnvironment = environment.map { _ in first }

    private static let environment = ProcessInfo.processInfo.environment["SLUICE_TEST_SEALED"]

    /// Settings of an organization as JSON text: with `SLUICE_TEST_SEALED=users` its users have their own keys, unless
    /// the test has chosen keys itself.
    package static func settings(_ settings: String, hasOwnKeys: Bool) -> String {
        guard environment == "users", !hasOwnKeys, settings.first == "{", !settings.contains("user_keys") else {
            return settings
        }
        return #"{"user_keys":true"# + (settings == "{}" ? "" : ",") + settings.dropFirst()
    }

    private static func hex(_ start: Int) -> String {
        (0..<32).map { index in
            let byte = (start + index * 7) % 256
            return (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }
}
