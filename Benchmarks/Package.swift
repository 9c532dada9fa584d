// swift-tools-version:6.2
import PackageDescription

// A separate package, so that `swift build` does not build what only scripts/bench runs. harness/build.py builds it,
// with the gateway's versions of the dependencies.
let package = Package(
    name: "benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        // The phone's library, without the traits that include the gateway, as in an app.
        .package(name: "sluice", path: ".."),
        .package(url: "https://github.com/apple/swift-crypto.git", from: "4.5.0"),
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.0"),
        .package(url: "https://github.com/groue/GRDB.swift.git", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.0"),
        .package(url: "https://github.com/swift-server/async-http-client.git", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
    ],
    targets: [
        .systemLibrary(name: "CEpoll", path: "CEpoll"),
        .executableTarget(
            name: "LoadGenerator",
            dependencies: ["CEpoll", .product(name: "Crypto", package: "swift-crypto")],
            path: "LoadGenerator"
        ),
        .executableTarget(
            name: "HTTPClientBaseline",
            dependencies: [
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            path: "HTTPClientBaseline"
        ),
        .executableTarget(
            name: "EmptyEndpoint",
            dependencies: [
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            path: "EmptyEndpoint"
        ),
        .executableTarget(
            name: "PhoneBenchmark",
            dependencies: [
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "SluiceClient", package: "sluice"),
            ],
            path: "Phone"
        ),
    ],
    swiftLanguageModes: [.v6]
)

// These are the settings of the gateway's targets.
for target in package.targets where target.type == .executable {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .treatAllWarnings(as: .error),
    ]
}
