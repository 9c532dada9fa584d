// swift-tools-version:6.2
import PackageDescription

let package = Package(
    name: "field-notes",
    platforms: [.macOS(.v13)],
    products: [.executable(name: "fieldnotes", targets: ["FieldNotes"])],
    dependencies: [
        // An app elsewhere has the repository's address and a version here.
        .package(name: "sluice", path: "../.."),
        .package(url: "https://github.com/groue/GRDB.swift.git", from: "7.10.0"),
        // For the command line only.
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.0"),
    ],
    targets: [
        .executableTarget(
            name: "FieldNotes",
            dependencies: [
                .product(name: "SluiceClient", package: "sluice"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        )
    ]
)
