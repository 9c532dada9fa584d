import Foundation
import JSONText
import TestSupport
import Testing

@testable import IngestFeature
@testable import SyncModel

/// Random edits at an API, some of them committed late. A poller reads the API in every way, is interrupted anywhere
/// and loses unsaved state. In the end it has reported the API's whole state.
@Suite struct PollPropertyTests {
    private enum Way: CaseIterable {
        case whole, link, cursor, page
    }

    /// An API that lists changes.
    private struct API {
        let way: Way
        let pageSize = 3
        var documents: [Int: (version: Int64, at: Timestamp)] = [:]
        var revision = 0

        mutating func edit(_ id: Int, at moment: Timestamp) {
            documents[id] = ((documents[id]?.version ?? 0) + 1, moment)
            revision += 1
        }

        /// Lists the oldest items first, but the newest first with numbered pages.
        ///
        /// Otherwise an item that moves in the list could make the poller skip unread items.
        func answer(_ request: UpstreamFetch) -> FetchedResponse {
            let etag = "\"\(revision)\""
            if request.etag == etag { return FetchedResponse(status: 304) }
            let query = Dictionary(
                uniqueKeysWithValues: (request.path.split(separator: "?").dropFirst().first ?? "").split(separator: "&")
                    .map { pair in
                        let parts = pair.split(separator: "=").map { String($0).removingPercentEncoding ?? "" }
                        return (parts[0], parts[1])
                    }
            )
            let since = query["since"].flatMap(Timestamp.init(rfc3339:))?.microseconds ?? 0
            var found = documents.filter { $0.value.at.microseconds >= since }
                .sorted { ($0.value.at, $0.key) < ($1.value.at, $1.key) }
            switch way {
            case .whole: return PollSamples.answer(list(found), etag: etag)
            case .link, .cursor:
                if let after = query["after"]?.split(separator: "-").compactMap({ Int64($0) }) {
                    found = found.filter { ($0.value.at.microseconds, Int64($0.key)) > (after[0], after[1]) }
                }
                let page = found.prefix(pageSize)
                let next = found.count > pageSize ? page.last.map { "\($0.value.at.microseconds)-\($0.key)" } : nil
                if way == .cursor {
                    return PollSamples.answer(#"{"d":\#(list(page)),"next":\#(next.map { "\"\($0)\"" } ?? "null")}"#)
                }
                let since = query["since"].map { "since=" + $0.replacing(":", with: "%3A") + "&" } ?? ""
                let links = next.map { ["<?\(since)after=\($0)>; rel=\"next\""] } ?? []
                return PollSamples.answer(list(page), etag: etag, links: links)
            case .page:
                let number = query["p"].flatMap { Int($0) } ?? 1
                return PollSamples.answer(list(found.reversed().dropFirst((number - 1) * pageSize).prefix(pageSize)))
            }
        }

        private func list(_ found: some Sequence<(key: Int, value: (version: Int64, at: Timestamp))>) -> String {
            let items = found.map { PollSamples.item($0.key, version: $0.value.version, at: $0.value.at) }
            return "[\(items.joined(separator: ","))]"
        }
    }

    /// A poller's state, and the events that it reported.
    private struct Poller {
        let planner: PollPlanner
        var stored: [UInt8]?
        var reported: [String: Int64] = [:]

        /// A worker's turn, interrupted at any point.
        ///
        /// - Returns: whether it reached the end of a pass.
        mutating func turn(
            _ api: inout API,
            _ clock: inout Timestamp,
            _ random: inout SeededRandom,
            trouble: Int,
            during: (inout API, inout Timestamp, inout SeededRandom) -> Void
        ) -> Bool {
            var state = planner.state(stored: stored)
            for _ in 0..<4 {
                let request = planner.request(state)
                let askedAt = clock
                let response = random.chance(trouble) ? FetchedResponse(status: 503) : api.answer(request)
                during(&api, &clock, &random)
                switch planner.reading(response, to: request, in: state) {
                case .unchanged: return true
                case .failed(let failure):
                    if let next = failure.state { stored = planner.stored(next) }
                    return false
                case .page(let page):
                    if random.chance(trouble) { return false }
                    for entry in page.events?.entries ?? [] {
                        guard case .success(let event) = entry.event, let version = event.mark.version else { continue }
                        reported[event.entityID.text] = max(reported[event.entityID.text] ?? 0, version)
                    }
                    if random.chance(trouble) { return false }
                    switch planner.state(after: page, PollTally(), in: state, askedAt: askedAt, now: clock) {
                    case .more(let next): state = next
                    case .done(let next):
                        stored = planner.stored(next)
                        return true
                    case .failed(let failure):
                        if let next = failure.state { stored = planner.stored(next) }
                        return false
                    }
                    if !random.chance(trouble) { stored = planner.stored(state) }
                }
            }
            return false
        }
    }

    @Test(arguments: 0..<60)
    func `reports everything despite interruptions`(_ round: Int) throws {
        let seed =
            ProcessInfo.processInfo.environment["SLUICE_TEST_SEED"].flatMap(UInt64.init) ?? .random(in: 1 ... .max)
        var random = SeededRandom(seed &+ UInt64(round))
        let way = Way.allCases[round % Way.allCases.count]
        var api = API(way: way)
        let paging =
            switch way {
            case .whole: ""
            case .link: #","paging":{"link":true}"#
            case .cursor: #","items":"/d","paging":{"cursor":{"parameter":"after","pointer":"/next"}}"#
            case .page: #","paging":{"page":{"parameter":"p"}}"#
            }
        var poller = Poller(planner: try PollSamples.planner(PollSamples.since + paging))
        var clock = PollSamples.now
        func edits(_ api: inout API, _ clock: inout Timestamp, _ random: inout SeededRandom) {
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                clock = clock.adding(seconds: Double.random(in: 0...20, using: &random))
                // a commit may carry an earlier time of change
                let moment = clock.adding(seconds: -Double.random(in: 0...30, using: &random))
                api.edit(Int.random(in: 1...20, using: &random), at: moment)
            }
        }
        for _ in 0..<60 {
            if random.chance(50) { clock = clock.adding(seconds: 30) }
            _ = poller.turn(&api, &clock, &random, trouble: 15, during: edits)
        }
        clock = clock.adding(seconds: 600)
        var ends = 0
        for _ in 0..<200 where ends < 2 {
            if poller.turn(&api, &clock, &random, trouble: 0, during: { _, _, _ in }) { ends += 1 }
        }
        #expect(ends == 2, "the pass ends; SLUICE_TEST_SEED=\(seed), round \(round)")
        for (id, document) in api.documents {
            #expect(
                poller.reported["\(id)"] == document.version,
                "\(way) \(id); SLUICE_TEST_SEED=\(seed), round \(round)"
            )
        }
    }

    /// No answer of an upstream makes a request leave the base URL, or a state unreadable.
    @Test(arguments: 0..<40)
    func `for any answer, the poller stays below its base URL and keeps a valid state`(_ round: Int) throws {
        var random = SeededRandom(UInt64(round) &+ 7)
        let pieces = [
            "[", "]", "{", "}", #""d":"#, #""next":"#, "null", "1", #""a""#, #""../../x""#, #""\u0000""#, ",", "1e999",
            #""updated_at":"2026-01-01T00:00:00Z""#, #""id":1"#, "[]", #"{"d":[],"next":"x"}"#, #"{"d":[{}],"next":7}"#,
            #"{"d":[1,{"id":1,"version":1,"updated_at":"9999-12-31T23:59:59Z","document":{}}]}"#, "<html>", "\u{0}",
            "😀",
        ]
        let links = [
            "<", ">", ";", ",", "rel", "=", "\"", "next", "/v1/x", "https://api.example/v1/y", "//evil.example/v1",
            "\\",
            "?a=b", "#", "..", "%2e%2e", "/", " ", "@", "anchor", "\r\n",
        ]
        let planners = [
            try PollSamples.planner(PollSamples.since + #","paging":{"link":true}"#),
            try PollSamples.planner(#""items":"/d","paging":{"cursor":{"parameter":"c","pointer":"/next"}}"#),
            try PollSamples.planner(#""updated_since":{"parameter":"s","form":"text","from":"^/next"},"items":"/d""#),
        ]
        for planner in planners {
            var state = PollState()
            for _ in 0..<300 {
                let body = (0..<Int.random(in: 0...5, using: &random)).map { _ in
                    pieces.randomElement(using: &random) ?? ""
                }
                let link = (0..<Int.random(in: 0...9, using: &random)).map { _ in
                    links.randomElement(using: &random) ?? ""
                }
                var response = FetchedResponse(
                    status: [200, 200, 200, 200, 204, 304, 404, 410, 500].randomElement(using: &random) ?? 200,
                    links: [link.joined(), "<\(link.joined())>; rel=next"],
                    body: Array(body.joined().utf8)
                )
                if random.oneIn(20) { response.body = nil }
                let request = planner.request(state)
                #expect(request.path.hasPrefix("/") && PathRules.problem(in: request.path) == nil, "\(request.path)")
                switch planner.reading(response, to: request, in: state) {
                case .unchanged: break
                case .failed(let failure): state = failure.state ?? state
                case .page(let page):
                    switch planner.state(
                        after: page,
                        PollTally(),
                        in: state,
                        askedAt: PollSamples.now,
                        now: PollSamples.now
                    ) {
                    case .more(let next), .done(let next): state = next
                    case .failed(let failure): state = failure.state ?? state
                    }
                }
                #expect(planner.state(stored: planner.stored(state)) == state)
            }
        }
    }
}
