import Foundation
import TestSupport
import Testing

/// The articles of the client library.
@Suite struct TutorialTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized
    private static let articles = root.appending(path: "Sources/SluiceClient/Documentation.docc")

    @Test func `the listings of the tutorial and of its test form a package that builds without warnings`()
        async throws
    {
        let listings = try Self.listings(of: "AddSluiceToAnApp.md")
        let strict = "swiftSettings: [.treatAllWarnings(as: .error)]"
        let end = #".product(name: "GRDB", package: "GRDB.swift"),\#n            ]"#
        let tests = """
            ),
                    .testTarget(
                        name: "VisitsTests",
                        dependencies: ["Visits", .product(name: "SluiceTesting", package: "sluice")],
                        \(strict)
                    ),
                ]
            )
            """
        let manifest = try #require(listings.first)
            .replacing(end, with: end + ", " + strict)
            .replacing(")\n    ]\n)", with: tests)
        #expect(manifest.split(separator: strict).count == 3)
        #expect(manifest.hasPrefix("// swift-tools-version:") && listings.count > 5)
        let app = try ConsumerApp(
            manifest: manifest,
            target: "Visits",
            sources: Array(listings.dropFirst()),
            tests: try Self.listings(of: "TestAnApp.md")
        )
        defer { app.remove() }
        try await app.swift("build", "--build-tests", "-debug-info-format", "none")
    }

    @Test func `the documentation has no dead links`() async throws {
        let script = """
            set -e
            out=$(mktemp -d)
            trap 'rm -r "$out"' EXIT
            for module in SluiceClient SluiceTesting; do
                graph=$out/$module docc=
                [ $module = SluiceTesting ] || docc=$2
                mkdir "$graph"
                swift symbolgraph-extract -module-name $module -minimum-access-level public -output-dir "$graph" \\
                    -target "$(uname -m)-unknown-linux-gnu" -I "$1/Modules" \\
                    -Xcc -fmodule-map-file="$1/../../checkouts/GRDB.swift/Sources/GRDBSQLite/module.modulemap"
                docc convert $docc --additional-symbol-graph-dir "$graph" --output-path "$graph.doccarchive" \\
                    --fallback-display-name $module --fallback-bundle-identifier $module >"$out/log" 2>&1 ||
                    { cat "$out/log" >&2; exit 1; }
                # parameters that explain themselves have no documentation
                if grep -E '(warning|error): ' "$out/log" | grep -v 'is missing documentation' >&2; then exit 1; fi
            done
            """
        let own = URL(filePath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        let arguments = [own.deletingLastPathComponent().path, Self.articles.path]
        try await ChildProcess.run(["/bin/sh", "-c", script, "sh"] + arguments)
    }

    /// The Swift code blocks of an article, in order.
    private static func listings(of article: String) throws -> [String] {
        let text = try String(contentsOf: articles.appending(path: article), encoding: .utf8)
        return text.matches(of: /(?sm)^```swift\n(.*?)^```$/).map { String($0.output.1) }
    }
}
