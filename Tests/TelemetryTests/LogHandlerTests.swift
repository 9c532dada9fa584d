import Foundation
import Logging
import TestSupport
import Testing

@testable import Telemetry

@Suite("Log lines")
struct LogHandlerTests {
    private struct Failure: Error {}

    private func json(_ log: (Logger) -> Void) throws -> [[String: Any]] {
        let lines = try captured { writer in
            log(
                Logger(label: "sluice.test") { LineLogHandler($0, .json, level: .trace, writer: writer) }
            )
        }
        return try lines.map {
            try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
    }

    private func text(colours: Bool = false, _ log: (Logger) -> Void) throws -> [String] {
        try captured { writer in
            log(Logger(label: "t") { LineLogHandler($0, .text, writer: writer, colours: colours) })
        }
    }

    @Test
    func `A JSON line has time, level, message, logger and the metadata as members`() throws {
        let line = try #require(
            try json {
                $0.warning("slow", metadata: [LogKeys.route: "/v1/changes", LogKeys.status: .stringConvertible(200)])
            }
            .first
        )
        #expect(line["level"] as? String == "warning")
        #expect(line["message"] as? String == "slow")
        #expect(line["logger"] as? String == "sluice.test")
        #expect(line["route"] as? String == "/v1/changes")
        #expect(line["status"] as? Int == 200)
        let time = try #require(line["time"] as? String)
        #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil)
    }

    @Test
    func `Only log lines during a request contain its id`() throws {
        func log(_ logger: Logger) {
            logger.info("before")
            LogContext.$current.withValue(LogContext(requestID: "r", traceID: "t")) {
                logger.info("during")
                logger.info("own words", metadata: [LogKeys.traceID: "mine"])
                LogContext.$current.withValue(LogContext(requestID: "s", traceID: nil)) { logger.info("another") }
            }
            logger.info("after")
        }
        let lines = try captured { writer in
            log(Logger(label: "t") { LineLogHandler($0, .json, metadataProvider: LogContext.provider, writer: writer) })
        }
        let found = try lines.map {
            let line = try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
            return ["request_id", "trace_id"].map { line[$0] as? String ?? "-" }.joined(separator: " ")
        }
        #expect(found == ["- -", "r t", "r mine", "s -", "- -"])
    }

    @Test
    func `For any string, a JSON line is one line and decodes to the same string`() throws {
        let nasty = "quote\" back\\slash\nline\r\ttab\u{0}\u{1B}[31m\u{7F} é 🙂 \u{2028}"
        let line = try #require(try json { $0.info("\(nasty)", metadata: ["\(nasty)": "\(nasty)"]) }.first)
        #expect(line["message"] as? String == nasty)
        #expect(line[nasty] as? String == nasty)
    }

    @Test
    func `Numbers, truth values, lists and dictionaries keep their JSON shape`() throws {
        let line = try #require(
            try json {
                $0.info(
                    "m",
                    metadata: [
                        "int": .stringConvertible(-3), "real": .stringConvertible(1.5), "yes": .stringConvertible(true),
                        "nan": .stringConvertible(Double.nan), "list": ["a", .stringConvertible(2)],
                        "nested": ["k": ["l": "v"]], "none": [:],
                    ]
                )
            }.first
        )
        #expect(line["int"] as? Int == -3)
        #expect(line["real"] as? Double == 1.5)
        #expect(line["yes"] as? Bool == true)
        #expect(line["nan"] as? String == "nan")
        #expect((line["list"] as? [Any])?.count == 2)
        #expect((line["nested"] as? [String: [String: String]])?["k"]?["l"] == "v")
        #expect((line["none"] as? [String: Any])?.isEmpty == true)
    }

    @Test
    func `A call's metadata overrides the logger's, and reserved names are kept separate`() throws {
        let lines = try json { logger in
            var logger = logger
            logger[metadataKey: "a"] = "logger"
            logger[metadataKey: "b"] = "logger"
            logger.info("m", metadata: ["a": "call", "level": "mine"])
            logger.error("m", error: Failure(), metadata: nil)
        }
        #expect(lines[0]["a"] as? String == "call")
        #expect(lines[0]["b"] as? String == "logger")
        #expect(lines[0]["level"] as? String == "info")
        #expect(lines[0]["level_"] as? String == "mine")
        #expect(lines[1]["error"] as? String == "Failure()")
    }

    @Test
    func `Long lines of many threads do not mix`() async throws {
        let text = String(repeating: "x", count: 20_000)
        let file = try UnnamedFile()
        let writer = LineWriter(fileDescriptor: file.descriptor)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let logger = Logger(label: "t") { LineLogHandler($0, .json, writer: writer) }
                    for _ in 0..<20 { logger.info("\(text)") }
                }
            }
        }
        let lines = file.lines
        #expect(lines.count == 160)
        #expect(lines.allSatisfy { $0.first == "{" && $0.last == "}" })
    }

    @Test
    func `A text line is time, level, message and key=value`() throws {
        let line = try #require(
            try text { $0.error("it failed", metadata: ["b": "two words", "a": "1", "c": ""]) }.first
        )
        #expect(
            line.wholeMatch(of: /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ERROR it failed a=1 b="two words" c=""/) != nil
        )
    }

    @Test
    func `A text line contains neither line breaks nor terminal control characters`() throws {
        let lines = try text { $0.info("a\nb\u{1B}[31m", metadata: ["k": "x\"y\u{9B}\r", "\n": "v"]) }
        #expect(lines.count == 1)
        #expect(lines[0].hasSuffix(#"INFO  a\nb\u{1b}[31m \n=v k="x\"y\u{9b}\u{d}""#))
        #expect(try text(colours: true) { $0.info("m") }[0].contains("\u{1B}[32mINFO \u{1B}[0m m"))
    }

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (1_795_244_459_007, "2026-11-21T07:00:59.007Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] as [(Int64, String)]
    )
    func `Times are written in RFC 3339`(milliseconds: Int64, text: String) {
        var bytes: [UInt8] = []
        LogTime(milliseconds: milliseconds).append(to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == text)
    }
}
