// swift-tools-version:6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]

/// A product that the gateway alone uses. A package is not even fetched while all of its products are behind a trait that
/// is off, so apps that add `SluiceClient` get GRDB and nothing else; one product without the condition undoes that.
func server(_ product: String, _ package: String) -> Target.Dependency {
    .product(name: product, package: package, condition: .when(traits: ["Gateway"]))
}

/// The commit that the program reports. If it changes, SwiftPM compiles one C file and links again.
let commit = Context.environment["BUILD_COMMIT"] ?? "unknown"

let features = ["Administration", "Encryption", "Ingest", "Operators", "Retention", "Transfer", "Users", "Webhooks"]
let featureTargets = features.map { Target.Dependency(stringLiteral: $0 + "Feature") }

/// The dependencies of a feature that not all features have.
let featureDependencies: [String: [Target.Dependency]] = [
    "Administration": ["CLibYAML", "SyncUpstream"],
    "Ingest": [
        "Spans", "StandardWebhooks", "SyncDispatch", "SyncUpstream", server("DequeModule", "swift-collections"),
    ],
    "Operators": ["CConsole"],
    "Transfer": [server("NIOPosix", "swift-nio")],
    "Users": ["Tokens"],
    "Webhooks": [
        "Spans", "StandardWebhooks", "SyncDispatch", "SyncUpstream",
        server("AsyncHTTPClient", "async-http-client"),
        server("NIOCore", "swift-nio"),
        server("NIOHTTP1", "swift-nio"),
        server("NIOPosix", "swift-nio"),
        server("UnixSignals", "swift-service-lifecycle"),
    ],
]

/// A part of the gateway around the engine, in a separate folder. No feature imports another.
func feature(_ name: String) -> Target {
    .target(
        name: name + "Feature",
        dependencies: [
            "CommandSupport", "JSONText", "Postgres", "SyncHTTP", "SyncModel", "SyncStore", "Telemetry",
            server("ArgumentParser", "swift-argument-parser"),
            server("Crypto", "swift-crypto"),
            server("HTTPTypes", "swift-http-types"),
            server("Logging", "swift-log"),
            server("Metrics", "swift-metrics"),
            server("ServiceLifecycle", "swift-service-lifecycle"),
        ] + featureDependencies[name, default: []],
        path: "Sources/Features/" + name,
        swiftSettings: settings
    )
}

// Every target exists to forbid an import; scripts/lint-imports holds the list that `make lint` checks.
let package = Package(
    name: "sluice",
    // The client library's; the gateway runs on Linux.
    platforms: [.iOS(.v16), .macOS(.v13)],
    products: [
        .executable(name: "sluice", targets: ["Sluice"]),
        .executable(name: "sluice-demo-upstream", targets: ["DemoUpstream"]),
        .library(name: "SluiceClient", targets: ["SluiceClient"]),
        .library(name: "SluiceTesting", targets: ["SluiceTesting"]),
    ],
    traits: [
        .trait(name: "Gateway", description: "The gateway and its tests, with the packages that only they need.")
    ],
    // Exact versions, which scripts/update-packages raises. Apps are not constrained by those behind the trait.
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser.git", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections.git", exact: "1.6.0"),
        .package(url: "https://github.com/apple/swift-crypto.git", exact: "4.5.2"),
        .package(url: "https://github.com/apple/swift-distributed-tracing.git", exact: "1.7.3"),
        .package(url: "https://github.com/apple/swift-http-types.git", exact: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", exact: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics.git", exact: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio.git", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras.git", exact: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl.git", exact: "2.37.6"),
        .package(url: "https://github.com/groue/GRDB.swift.git", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", exact: "2.28.1"),
        .package(url: "https://github.com/swift-server/async-http-client.git", exact: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", exact: "2.13.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess.git", exact: "1.0.2"),
        .package(url: "https://github.com/vapor/jwt-kit.git", exact: "5.7.1"),
    ],
    targets: [
        // C edges
        // glibc's allocator settings, which the Glibc module leaves out
        .systemLibrary(name: "CMalloc"),
        .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "CLibYAML", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),
        // The commit of the sources
        .target(name: "CBuild", cSettings: [.define("BUILD_COMMIT", to: "\"\(commit)\"")]),
        // The OpenAPI document, as bytes of the program
        .target(name: "CContract", exclude: ["openapi.json"]),
        // The files of the operator's console, the same way
        .target(name: "CConsole", exclude: ["assets"]),
        .target(
            name: "CSimdJSON",
            linkerSettings: [.linkedLibrary("simdjson")]
        ),

        // Without the trait, its compilation fails with an explanation. All of the gateway depends on it, so nothing
        // else is compiled.
        .target(name: "GatewayTrait", swiftSettings: settings),

        // Tools that know no sync
        .target(name: "Postgres", dependencies: ["CLibPQ", "GatewayTrait"], swiftSettings: settings),
        .target(name: "JSONText", dependencies: ["CSimdJSON", "GatewayTrait"], swiftSettings: settings),
        .target(
            name: "Telemetry",
            dependencies: [
                "GatewayTrait",
                server("CoreMetrics", "swift-metrics"),
                server("Logging", "swift-log"),
            ],
            swiftSettings: settings
        ),

        // Signatures of webhooks, both ways
        .target(
            name: "StandardWebhooks",
            dependencies: ["GatewayTrait", server("Crypto", "swift-crypto")],
            swiftSettings: settings
        ),

        // The rules, and the shells around them
        .target(
            name: "SyncModel",
            dependencies: [
                "JSONText",
                server("Crypto", "swift-crypto"),
            ],
            swiftSettings: settings
        ),
        // Spans by the API of swift-distributed-tracing
        .target(
            name: "Spans",
            dependencies: ["JSONText", "SyncModel", server("Tracing", "swift-distributed-tracing")],
            swiftSettings: settings
        ),
        // The tracer behind that API
        .target(
            name: "TraceExport",
            dependencies: [
                "JSONText", "Spans", "SyncModel",
                server("AsyncHTTPClient", "async-http-client"),
                server("Logging", "swift-log"),
                server("Metrics", "swift-metrics"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
                server("Tracing", "swift-distributed-tracing"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "GroupCommit",
            dependencies: [
                "Spans", "SyncModel", "Postgres",
                server("DequeModule", "swift-collections"),
                server("Metrics", "swift-metrics"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "SyncStore",
            dependencies: [
                "GroupCommit", "Spans", "SyncModel", "Postgres", "JSONText",
                server("DequeModule", "swift-collections"),
                server("Logging", "swift-log"),
                server("Metrics", "swift-metrics"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            resources: [
                .embedInCode("Migrations"), .embedInCode("Schema/roles.sql"), .embedInCode("Cluster/citus.sql"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "Tokens",
            dependencies: [
                "SyncModel", "JSONText",
                server("Crypto", "swift-crypto"),
                server("JWTKit", "jwt-kit"),
                server("Logging", "swift-log"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "SyncHTTP",
            dependencies: [
                "CContract", "GroupCommit", "Spans", "StandardWebhooks", "SyncModel", "SyncStore",
                "Tokens", "JSONText", "Telemetry",
                server("Crypto", "swift-crypto"),
                server("DequeModule", "swift-collections"),
                server("HTTPTypes", "swift-http-types"),
                server("HummingbirdCore", "hummingbird"),
                server("Logging", "swift-log"),
                server("Metrics", "swift-metrics"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOHTTPTypes", "swift-nio-extras"),
                server("NIOHTTPTypesHTTP1", "swift-nio-extras"),
                server("NIOPosix", "swift-nio"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "SyncUpstream",
            dependencies: [
                "Spans", "SyncModel", "JSONText",
                server("AsyncHTTPClient", "async-http-client"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "SyncDispatch",
            dependencies: [
                "Spans", "SyncModel", "SyncStore",
                server("DequeModule", "swift-collections"),
                server("Logging", "swift-log"),
                server("Metrics", "swift-metrics"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        // What commands of the gateway and of features share: settings, options, output
        .target(
            name: "CommandSupport",
            dependencies: [
                "CBuild", "JSONText", "Postgres", "StandardWebhooks", "SyncDispatch", "SyncHTTP", "SyncModel",
                "SyncStore",
                "Telemetry", "Tokens",
                server("ArgumentParser", "swift-argument-parser"),
                server("Logging", "swift-log"),
            ],
            swiftSettings: settings
        ),

        .executableTarget(
            name: "Sluice",
            dependencies: featureTargets + [
                "CMalloc", "CommandSupport", "JSONText", "Postgres", "StandardWebhooks", "SyncDispatch", "SyncHTTP",
                "SyncModel", "SyncStore", "SyncUpstream", "Telemetry", "Tokens", "TraceExport",
                server("ArgumentParser", "swift-argument-parser"),
                server("Logging", "swift-log"),
                server("Metrics", "swift-metrics"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
                server("Subprocess", "swift-subprocess"),
                server("UnixSignals", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),

        // The REST API of `sluice dev --demo-upstream`
        .executableTarget(
            name: "DemoUpstream",
            dependencies: [
                "CommandSupport", "JSONText", "SyncHTTP", "SyncModel", "SyncUpstream",
                server("ArgumentParser", "swift-argument-parser"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),

        // For apps
        .target(
            name: "SluiceClient",
            dependencies: [.product(name: "GRDB", package: "GRDB.swift")],
            swiftSettings: settings
        ),
        // For apps' tests
        .target(name: "SluiceTesting", dependencies: ["SluiceClient"], swiftSettings: settings),

        // Tests
        // Nothing imports it: it is linked into the tests' process, and bounds how many run at a time.
        .target(name: "CTestWidth", path: "Tests/CTestWidth"),
        // Code that suites share. It is a test target without tests, so that `swift build` does not build it.
        .testTarget(
            name: "TestSupport",
            dependencies: ["CTestWidth", "Postgres"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "StoreSupport",
            dependencies: featureTargets + [
                "JSONText", "Postgres", "Sluice", "SyncHTTP", "SyncModel", "SyncStore", "TestSupport",
                server("Logging", "swift-log"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "GatewaySupport",
            dependencies: featureTargets + [
                "CommandSupport", "DemoUpstream", "JSONText", "Postgres", "StandardWebhooks", "SyncDispatch",
                "SyncHTTP", "SyncModel", "SyncStore", "SyncUpstream", "Sluice", "Telemetry", "TestSupport", "Tokens",
                server("AsyncHTTPClient", "async-http-client"),
                server("Logging", "swift-log"),
                server("Metrics", "swift-metrics"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .testTarget(name: "JSONTextTests", dependencies: ["JSONText"], swiftSettings: settings),
        .testTarget(name: "StandardWebhooksTests", dependencies: ["StandardWebhooks"], swiftSettings: settings),
        .testTarget(name: "PostgresTests", dependencies: ["Postgres", "TestSupport"], swiftSettings: settings),
        .testTarget(
            name: "TelemetryTests",
            dependencies: [
                "Telemetry", "TestSupport",
                server("CoreMetrics", "swift-metrics"),
                server("Logging", "swift-log"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TraceExportTests",
            dependencies: [
                "JSONText", "Spans", "SyncModel", "Telemetry", "TestSupport", "TraceExport",
                server("Logging", "swift-log"),
                server("Tracing", "swift-distributed-tracing"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TokensTests",
            dependencies: featureTargets + [
                "SyncModel", "Tokens",
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("Logging", "swift-log"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "SyncHTTPTests",
            dependencies: featureTargets + [
                "SyncHTTP", "SyncStore", "SyncModel", "JSONText",
                server("HTTPTypes", "swift-http-types"),
                server("HummingbirdCore", "hummingbird"),
                server("NIOCore", "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "SluiceTests",
            dependencies: featureTargets + [
                "CommandSupport", "DemoUpstream", "Sluice", "StandardWebhooks", "SyncHTTP", "SyncModel", "SyncStore",
                server("Logging", "swift-log"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "GatewayTests",
            dependencies: featureTargets + [
                "CommandSupport", "DemoUpstream", "JSONText", "GatewaySupport", "Postgres", "StandardWebhooks",
                "SyncHTTP",
                "SyncModel", "SyncStore", "Sluice", "Telemetry", "TestSupport", "Tokens",
                server("AsyncHTTPClient", "async-http-client"),
                server("Crypto", "swift-crypto"),
                server("HTTPTypes", "swift-http-types"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOSSL", "swift-nio-ssl"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "SluiceClientTests",
            dependencies: [
                "SluiceClient", "SluiceTesting", "GatewaySupport", "JSONText", "StoreSupport", "SyncModel",
                "TestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "SyncUpstreamTests",
            dependencies: featureTargets + [
                "SyncUpstream", "SyncModel", "JSONText", "TestSupport",
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "SyncDispatchTests",
            dependencies: featureTargets + [
                "SyncDispatch", "GroupCommit", "SyncHTTP", "SyncStore", "SyncModel", "Postgres", "JSONText",
                "StoreSupport",
                "TestSupport",
                server("Logging", "swift-log"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "SyncModelTests",
            dependencies: featureTargets + ["SyncModel", "SyncHTTP", "JSONText", "TestSupport"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "SyncStoreTests",
            dependencies: featureTargets + [
                "GroupCommit", "SyncHTTP", "SyncStore", "SyncModel", "Postgres", "JSONText", "StoreSupport",
                "TestSupport",
                server("Logging", "swift-log"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6],
    cxxLanguageStandard: .cxx17
)

package.targets += features.map(feature)
