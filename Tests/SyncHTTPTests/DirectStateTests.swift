import HTTPTypes
import NIOCore
import NIOHTTPTypes
import Testing

@testable import SyncHTTP

@Suite("Which requests may be answered directly")
struct DirectStateTests {
    private static let head = HTTPRequest(method: .post, scheme: nil, authority: nil, path: "/")
    private static let body = ByteBuffer(string: "{}")

    /// What comes of a whole request.
    private func readWhole(_ state: inout DirectState) -> [String] {
        [.head(Self.head), .body(Self.body), .end(nil)].map { name(state.read($0)) }
    }

    private func name(_ action: DirectState.Action) -> String {
        switch action {
        case .nothing: "nothing"
        case .pass(let parts): "pass \(parts.count)"
        case .answer(_, let body): body == nil ? "answer without body" : "answer"
        }
    }

    private func names(_ waiting: [DirectState.Waiting]) -> [String] {
        waiting.map { event in
            switch event {
            case .part(.head): "head"
            case .part(.body): "body"
            case .part(.end): "end"
            case .error: "error"
            case .inputClosed: "input closed"
            }
        }
    }

    @Test
    func `One in one piece`() {
        var state = DirectState()
        #expect(readWhole(&state) == ["nothing", "nothing", "answer"])
        #expect(names(state.answered()).isEmpty)
        #expect(name(state.read(.head(Self.head))) == "nothing")
        #expect(name(state.read(.end(nil))) == "answer without body")
    }

    @Test
    func `One that is not there as a whole is passed on, and so are those behind it until it is answered`() {
        var state = DirectState()
        _ = state.read(.head(Self.head))
        _ = state.read(.body(Self.body))
        #expect(state.giveUp().count == 2)
        #expect(state.giveUp().isEmpty)
        #expect(name(state.read(.body(Self.body))) == "pass 1")
        #expect(name(state.read(.end(nil))) == "pass 1")
        #expect(readWhole(&state) == ["pass 1", "pass 1", "pass 1"])
        state.passedOnAnswered()
        #expect(readWhole(&state) == ["pass 1", "pass 1", "pass 1"])
        state.passedOnAnswered()
        state.passedOnAnswered()
        #expect(readWhole(&state) == ["nothing", "nothing", "answer"])
    }

    @Test
    func `A body in several parts, and fields behind it, are passed on`() {
        var state = DirectState()
        _ = state.read(.head(Self.head))
        _ = state.read(.body(Self.body))
        #expect(name(state.read(.body(Self.body))) == "pass 3")
        #expect(name(state.read(.end(nil))) == "pass 1")
        state.passedOnAnswered()
        _ = state.read(.head(Self.head))
        #expect(name(state.read(.end([.date: "now"]))) == "pass 2")
    }

    @Test
    func `One that its route leaves alone counts as passed on`() {
        var state = DirectState()
        _ = readWhole(&state)
        state.refuse()
        #expect(name(state.read(.head(Self.head))) == "pass 1")
    }

    @Test
    func `What comes behind one that is answered directly waits`() {
        var state = DirectState()
        _ = readWhole(&state)
        #expect(name(state.read(.head(Self.head))) == "nothing")
        #expect(state.holds(.error(CancellationError())))
        #expect(state.holds(.inputClosed))
        #expect(state.giveUp().isEmpty)
        #expect(names(state.answered()) == ["head", "error", "input closed"])
        #expect(!state.holds(.inputClosed))
    }
}
