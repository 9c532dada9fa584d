import Foundation
import GatewaySupport
import Glibc
import TestSupport
import Testing

/// The app in `Examples`, which shows how to use the library.
@Suite struct FieldNotesTests {
    @Test func `the example app builds and its tour has the documented output`() async throws {
        try await Self.build()
        let command = #"exec "$ROOT/scripts/phones" --sluice "$SLUICE""#
        let folder = try TestFolder.make("phones")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        // PostgreSQL runs as another user where root runs the tests
        chmod(folder, 0o711)
        let environment = ["ROOT": Self.root, "SLUICE": Program.path, "TMPDIR": folder]
        let tour = try Program(shell: command, environment: environment)
        let result = try await tour.result(within: Self.timeout)
        #expect(result.status == 0, "\(result.output)\(result.complaint)")
        let reported = [
            "Both lose the network.", "Kari decides: her number.", "It moves from Per's phone to Lise's.",
            "Kari discards the visit", "In the end both phones of the office show the same.",
            "Nothing is left to send, to retry or to settle.",
        ]
        for line in reported { #expect(result.output.contains(line), "\(line)") }
    }

    /// Builds the app like `make phones`, and into the same folder. The build needs no network, because the app's
    /// dependencies are the checkouts of these tests.
    private static func build() async throws {
        let script = """
            cd "$ROOT" || exit
            unset $(git rev-parse --local-env-vars)
            export GIT_CONFIG_COUNT=2
            export GIT_CONFIG_KEY_0="url.$CHECKOUTS/GRDB.swift.insteadOf"
            export GIT_CONFIG_VALUE_0=https://github.com/groue/GRDB.swift.git
            export GIT_CONFIG_KEY_1="url.$CHECKOUTS/swift-argument-parser.insteadOf"
            export GIT_CONFIG_VALUE_1=https://github.com/apple/swift-argument-parser.git
            exec swift build --package-path Examples/FieldNotes --scratch-path .build-examples --disable-dependency-cache
            """
        let build = try Program(shell: script, environment: ["ROOT": root, "CHECKOUTS": checkouts])
        let result = try await build.result(within: timeout)
        try #require(result.status == 0, "\(result.output)\(result.complaint)")
    }

    /// The time limit of the build, long enough for a slow machine.
    private static let timeout = Duration.seconds(900)

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardized.path

    /// The folder of the checkouts, next to the folder with the built programs.
    private static let checkouts = URL(filePath: Program.path).deletingLastPathComponent()
        .appending(path: "../../checkouts").standardized.path
}
