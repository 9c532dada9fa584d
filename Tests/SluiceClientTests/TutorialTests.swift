import Foundation
import Testing

/// The first article for new users.
@Suite struct TutorialTests {
    @Test func `the listings of the tutorial form a package that builds without warnings`() async throws {
        let listings = try Self.listings()
        let end = #".product(name: "GRDB", package: "GRDB.swift"),\#n            ]"#
        let manifest = try #require(listings.first)
            .replacing(end, with: end + ", swiftSettings: [.treatAllWarnings(as: .error)]")
        #expect(manifest.contains("treatAllWarnings"))
        #expect(manifest.hasPrefix("// swift-tools-version:") && listings.count > 5)
        let app = try ConsumerApp(manifest: manifest, target: "Visits", sources: Array(listings.dropFirst()))
        defer { app.remove() }
        try await app.swift("build", "-debug-info-format", "none", "--disable-index-store")
    }

    /// Its Swift code blocks, in order.
    private static func listings() throws -> [String] {
        let article = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../Sources/SluiceClient/Documentation.docc/AddSluiceToAnApp.md")
        let text = try String(contentsOf: article, encoding: .utf8)
        return text.matches(of: /(?sm)^```swift\n(.*?)^```$/).map { String($0.output.1) }
    }
}
