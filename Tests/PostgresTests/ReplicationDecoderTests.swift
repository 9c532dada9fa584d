import TestSupport
import Testing

@testable import Postgres

/// Messages as bytes.
@Suite struct ReplicationDecoderTests {
    private static func message(_ bytes: [UInt8]) throws -> ReplicationMessage {
        try bytes.withUnsafeBytes { try ReplicationDecoder.message($0) }
    }

    private static func bytes(_ kind: String, _ parts: [UInt8]...) -> [UInt8] {
        Array(kind.utf8) + parts.flatMap { $0 }
    }

    private static func number<Value: FixedWidthInteger>(_ value: Value) -> [UInt8] {
        withUnsafeBytes(of: value.bigEndian) { Array($0) }
    }

    private static let tuple = number(UInt16(3)) + Array("nut".utf8) + number(UInt32(2)) + Array("hi".utf8)
    private static let samples: [([UInt8], ReplicationMessage)] = [
        (
            bytes("B", number(UInt64(7)), number(Int64(5)), number(UInt32(1))),
            .begin(commit: LogPosition(7), at: 946_684_800_000_005)
        ),
        (
            bytes("C", [0], number(UInt64(7)), number(UInt64(9)), number(Int64(0))),
            .commit(end: LogPosition(9))
        ),
        (
            bytes(
                "R",
                number(UInt32(5)),
                Array("public\0t\0d".utf8),
                number(UInt16(1)),
                [1],
                Array("id\0".utf8),
                number(UInt32(20)),
                number(Int32(-1))
            ),
            .relation(
                ReplicationRelation(
                    id: 5,
                    schema: "public",
                    name: "t",
                    columns: [.init(name: "id", type: 20, isKey: true)]
                )
            )
        ),
        (
            bytes("I", number(UInt32(5)), Array("N".utf8), tuple),
            .insertion(table: 5, new: [.null, .unchanged, .text(Array("hi".utf8))])
        ),
        (
            bytes("U", number(UInt32(5)), Array("K".utf8), tuple, Array("N".utf8), tuple),
            .row(
                table: 5,
                old: [.null, .unchanged, .text(Array("hi".utf8))],
                new: [.null, .unchanged, .text(Array("hi".utf8))]
            )
        ),
        (
            bytes("D", number(UInt32(5)), Array("O".utf8), tuple),
            .deletion(table: 5, old: [.null, .unchanged, .text(Array("hi".utf8))])
        ),
        (
            bytes("T", number(UInt32(2)), [0], number(UInt32(5)), number(UInt32(6))),
            .truncation(tables: [5, 6])
        ),
        (bytes("M", [0]), .other), (bytes("Y", [0]), .other), (bytes("O", [0]), .other),
    ]

    @Test func `decodes every message of the protocol`() throws {
        for (bytes, message) in Self.samples { #expect(try Self.message(bytes) == message) }
    }

    @Test func `refuses truncated messages and never reads beyond their end`() {
        for (bytes, message) in Self.samples where message != .other {
            for length in 0..<bytes.count where length < bytes.count - Self.ignoredTail(message) {
                #expect(throws: PostgresError.self, "\(message) of \(length)") {
                    try Self.message(Array(bytes[..<length]))
                }
            }
        }
    }

    /// The ignored end of a message: the transaction id of a begin, and the commit time of an end.
    private static func ignoredTail(_ message: ReplicationMessage) -> Int {
        switch message {
        case .begin: 4
        case .commit: 8
        default: 0
        }
    }

    /// Counts beyond the message's size allocate no memory of that size.
    @Test func `decoding ends for any bytes`() {
        let seed = UInt64.random(in: 0...(.max))
        var generator = SeededRandom(seed)
        for _ in 0..<20_000 {
            var bytes = Self.samples.randomElement(using: &generator)?.0 ?? []
            for _ in 0..<Int.random(in: 1...4, using: &generator) where !bytes.isEmpty {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
            }
            if case .success(.row(_, _, let new)) = Result(catching: { try Self.message(bytes) }) {
                #expect(new.count < bytes.count, "seed \(seed)")
            }
        }
    }

    @Test(arguments: [
        ("0/0", UInt64(0)), ("16/B374D848", 0x16_B374_D848), ("FFFFFFFF/FFFFFFFF", .max), ("0/1", 1),
    ])
    func `positions are written as PostgreSQL does`(text: String, bytes: UInt64) {
        #expect(LogPosition(text) == LogPosition(bytes))
        #expect(LogPosition(bytes).description == text)
    }

    @Test(arguments: ["", "/", "1", "1/", "/1", "1/2/3", "+1/2", "-1/2", "1/100000000", "g/1", " 1/2"])
    func `other texts are no positions`(text: String) { #expect(LogPosition(text) == nil) }
}
