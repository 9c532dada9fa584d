import Foundation
import TestSupport
import Testing

/// What an app gets that adds this package.
@Suite struct ConsumerTests {
    @Test func `an app that adds the client library fetches GRDB and nothing else`() async throws {
        let app = try ConsumerApp()
        defer { app.remove() }
        try await app.resolve()
        let packages = try app.packages()
        #expect(packages == ["grdb.swift", "sluice"])
    }
}

/// An app in a folder of its own that depends on `SluiceClient` as apps do: on a version of a git repository, made of
/// the files as they are now, committed or not. Written for a tools version that knows no traits.
private struct ConsumerApp {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "consumer-\(UUID().uuidString)")

    init() throws {
        let sources = folder.appending(path: "app/Sources/App")
        try FileManager.default.createDirectory(at: sources, withIntermediateDirectories: true)
        try "import SluiceClient\n".write(to: sources.appending(path: "main.swift"), atomically: false, encoding: .utf8)
        let manifest = """
            // swift-tools-version:5.9
            import PackageDescription

            let package = Package(
                name: "App",
                platforms: [.iOS(.v16), .macOS(.v13)],
                dependencies: [.package(url: "file://\(folder.path)/sluice.git", from: "1.0.0")],
                targets: [
                    .executableTarget(
                        name: "App",
                        dependencies: [.product(name: "SluiceClient", package: "sluice")]
                    )
                ]
            )
            """
        try manifest.write(to: folder.appending(path: "app/Package.swift"), atomically: false, encoding: .utf8)
    }

    func remove() {
        try? FileManager.default.removeItem(at: folder)
    }

    /// Has SwiftPM resolve the app's packages, without network: GRDB is the one that these tests are built with. Caches
    /// and settings are the folder's own, so that nothing of it is left behind and nothing of the machine counts.
    func resolve() async throws {
        let script = """
            set -e
            exec >"$1/log" 2>&1
            cd "$1"
            root=$2
            unset $(git rev-parse --local-env-vars)
            export GIT_CONFIG_GLOBAL="$1/gitconfig"
            git config --global user.name tests
            git config --global user.email tests@localhost
            git config --global "url.$3.insteadOf" https://github.com/groue/GRDB.swift.git
            git init --quiet --bare sluice.git
            repository() { git --git-dir=sluice.git --work-tree="$root" "$@"; }
            repository add --all
            repository commit --quiet --message "the files as they are"
            repository tag 1.0.0
            swift package --package-path app --cache-path swiftpm/cache --config-path swiftpm/configuration \\
                --security-path swiftpm/security resolve
            """
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized.path
        do {
            try await ChildProcess.run(["/bin/sh", "-c", script, "sh", folder.path, root, Self.checkoutOfGRDB])
        } catch {
            let log = try String(contentsOf: folder.appending(path: "log"), encoding: .utf8)
            Issue.record(error, "\(log)")
        }
    }

    /// The identities of all that was resolved.
    func packages() throws -> Set<String> {
        struct Resolved: Decodable {
            struct Pin: Decodable {
                let identity: String
            }

            let pins: [Pin]
        }
        let file = try Data(contentsOf: folder.appending(path: "app/Package.resolved"))
        return Set(try JSONDecoder().decode(Resolved.self, from: file).pins.map(\.identity))
    }

    /// Beside the folder with the tests' own program.
    private static let checkoutOfGRDB = {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "."
        return URL(filePath: own).deletingLastPathComponent().appending(path: "../../checkouts/GRDB.swift")
            .standardized.path
    }()
}
