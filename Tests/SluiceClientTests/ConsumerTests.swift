import Testing

/// The dependencies of an app that adds this package.
@Suite struct ConsumerTests {
    @Test func `an app that adds the client library fetches only GRDB`() async throws {
        let app = try ConsumerApp(manifest: Self.manifest, target: "App", sources: ["import SluiceClient\n"])
        defer { app.remove() }
        try await app.swift("package", "resolve")
        let packages = try app.packages()
        #expect(packages == ["grdb.swift", "sluice"])
    }

    /// Written for a tools version without support for traits.
    private static let manifest = """
        // swift-tools-version:5.9
        import PackageDescription

        let package = Package(
            name: "App",
            platforms: [.iOS(.v16), .macOS(.v13)],
            dependencies: [.package(url: "\(ConsumerApp.address)", from: "0.1.0")],
            targets: [
                .target(
                    name: "App",
                    dependencies: [.product(name: "SluiceClient", package: "sluice")]
                )
            ]
        )
        """
}
