import Testing

/// The dependencies of an app that adds this package.
@Suite struct ConsumerTests {
    @Test func `an app that adds the client library fetches only GRDB`() async throws {
        let app = try ConsumerApp(manifest: Self.manifest(), target: "App", sources: ["import SluiceClient\n"])
        defer { app.remove() }
        try await app.swift("package", "resolve")
        let packages = try app.packages()
        #expect(packages == ["grdb.swift", "sluice"])
    }

    @Test func `an app can use another version of a package than the gateway`() async throws {
        let log = "https://github.com/apple/swift-log.git"
        let manifest = Self.manifest(
            package: #", .package(url: "\#(log)", exact: "1.5.0")"#,
            product: #", .product(name: "Library", package: "swift-log")"#
        )
        let app = try ConsumerApp(manifest: manifest, target: "App", sources: ["import SluiceClient\n"])
        defer { app.remove() }
        try app.publish(log, version: "1.5.0")
        try await app.swift("package", "resolve")
        let packages = try app.packages()
        #expect(packages == ["grdb.swift", "sluice", "swift-log"])
    }

    /// A manifest for a tools version without support for traits.
    ///
    /// - Parameters:
    ///   - package: a further dependency of the package, after a comma.
    ///   - product: its product, after a comma.
    private static func manifest(package: String = "", product: String = "") -> String {
        """
        // swift-tools-version:5.9
        import PackageDescription

        let package = Package(
            name: "App",
            platforms: [.iOS(.v16), .macOS(.v13)],
            dependencies: [.package(url: "\(ConsumerApp.address)", from: "0.1.0")\(package)],
            targets: [
                .target(
                    name: "App",
                    dependencies: [.product(name: "SluiceClient", package: "sluice")\(product)]
                )
            ]
        )
        """
    }
}
