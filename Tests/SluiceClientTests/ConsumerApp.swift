import Foundation
import TestSupport
import Testing

/// An app in a separate folder that depends on `SluiceClient` like a real app: on a version of a git repository, made
/// from the current files, committed or not.
struct ConsumerApp {
    /// The repository's URL in manifests. Nothing is fetched from there.
    static let address = "https://git.example.com/sluice.git"

    private let folder = FileManager.default.temporaryDirectory.appending(path: "consumer-\(UUID().uuidString)")

    /// - Parameters:
    ///   - sources: the files of the only target.
    ///   - tests: the files of its tests.
    init(manifest: String, target: String, sources: [String], tests: [String] = []) throws {
        let app = folder.appending(path: "app")
        for (path, texts) in [("Sources/\(target)", sources), ("Tests/\(target)Tests", tests)] {
            let files = app.appending(path: path)
            try FileManager.default.createDirectory(at: files, withIntermediateDirectories: true)
            for (index, text) in texts.enumerated() {
                let file = files.appending(path: "File\(index + 1).swift")
                try text.write(to: file, atomically: false, encoding: .utf8)
            }
        }
        try manifest.write(to: app.appending(path: "Package.swift"), atomically: false, encoding: .utf8)
    }

    /// Publishes a version of a package with an empty library, `Library`. Call this before the only command.
    func publish(_ url: String, version: String) throws {
        let name = URL(filePath: url).deletingPathExtension().lastPathComponent
        let package = folder.appending(path: "packages/\(name)")
        let sources = package.appending(path: "Sources/Library")
        try FileManager.default.createDirectory(at: sources, withIntermediateDirectories: true)
        let manifest = """
            // swift-tools-version:5.9
            import PackageDescription

            let package = Package(
                name: "\(name)",
                products: [.library(name: "Library", targets: ["Library"])],
                targets: [.target(name: "Library")]
            )
            """
        for (file, text) in [
            "Package.swift": manifest, "Sources/Library/File.swift": "", "url": url, "version": version,
        ] {
            try text.write(to: package.appending(path: file), atomically: false, encoding: .utf8)
        }
    }

    func remove() {
        try? FileManager.default.removeItem(at: folder)
    }

    /// Runs `swift` on the app, and records the command's output if the command fails.
    ///
    /// The command needs no network, because GRDB is the checkout of these tests. Caches and settings are in the
    /// folder, so that nothing remains and the machine's settings have no effect.
    func swift(_ command: String...) async throws {
        let script = """
            set -e
            exec >"$1/log" 2>&1
            cd "$1"
            root=$2 grdb=$3 address=$4
            shift 4
            unset $(git rev-parse --local-env-vars)
            export GIT_CONFIG_GLOBAL="$PWD/gitconfig" TMPDIR="$PWD"
            git config --global user.name tests
            git config --global user.email tests@localhost
            git config --global "url.$grdb.insteadOf" https://github.com/groue/GRDB.swift.git
            git config --global "url.file://$PWD/sluice.git.insteadOf" "$address"
            for package in "$PWD"/packages/*/; do
                test -e "$package/url" || continue
                git init --quiet "$package"
                git -C "$package" add --all
                git -C "$package" commit --quiet --message "one version"
                git -C "$package" tag "$(cat "$package/version")"
                git config --global "url.file://$package.insteadOf" "$(cat "$package/url")"
            done
            git init --quiet --bare sluice.git
            repository() { git --git-dir=sluice.git --work-tree="$root" "$@"; }
            repository add --all
            repository commit --quiet --message "the files as they are"
            repository tag 0.1.0
            swift "$@" --package-path app --cache-path swiftpm/cache --config-path swiftpm/configuration \\
                --security-path swiftpm/security
            """
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized.path
        let arguments = [folder.path, root, Self.checkoutOfGRDB, Self.address]
        do {
            try await ChildProcess.run(["/bin/sh", "-c", script, "sh"] + arguments + command)
        } catch {
            let log = try String(contentsOf: folder.appending(path: "log"), encoding: .utf8)
            // without SwiftPM's progress messages
            let words = log.split(separator: "\n").filter { !$0.hasPrefix("[") }.joined(separator: "\n")
            Issue.record("swift \(command.joined(separator: " ")) failed:\n\(words)")
        }
    }

    /// The identities of all resolved packages.
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

    /// The checkout of GRDB, next to the folder with the tests' own program.
    private static let checkoutOfGRDB = {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "."
        return URL(filePath: own).deletingLastPathComponent().appending(path: "../../checkouts/GRDB.swift")
            .standardized.path
    }()
}
