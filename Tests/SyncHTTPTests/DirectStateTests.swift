import HTTPTypes
import NIOCore
import NIOHTTPTypes
import Testing

@testable import SyncHTTP

/// A state whose actions are told by their names.
private final class Connection {
    private static let body = ByteBuffer(string: "{}")
    private var state = DirectState()

    func readHead() -> String {
        name(state.read(.head(HTTPRequest(method: .post, scheme: nil, authority: nil, path: "/"))))
    }

    func readBody() -> String { name(state.read(.body(Self.body))) }

    func readEnd(_ trailers: HTTPFields? = nil) -> String { name(state.read(.end(trailers))) }

    func readWhole() -> [String] { [readHead(), readBody(), readEnd()] }

    func giveUp() -> Int { state.giveUp().count }

    func refuse() { state.refuse() }

    func passedOnAnswered() { state.passedOnAnswered() }

    func holds(_ event: DirectState.Waiting) -> Bool { state.holds(event) }

    func answered() -> [String] {
        state.answered().map { event in
            switch event {
            case .part(.head): "head"
            case .part(.body): "body"
            case .part(.end): "end"
            case .error: "error"
            case .inputClosed: "input closed"
            }
        }
    }

    private func name(_ action: DirectState.Action) -> String {
        switch action {
        case .nothing: "nothing"
        case .pass(let parts): "pass \(parts.count)"
        case .answer(_, let body): body == nil ? "answer without body" : "answer"
        }
    }
}

@Suite("Which requests may be answered directly")
struct DirectStateTests {
    private let connection = Connection()

    @Test
    func `One in one piece`() {
        #expect(connection.readWhole() == ["nothing", "nothing", "answer"])
        #expect(connection.answered().isEmpty)
        #expect(connection.readHead() == "nothing")
        #expect(connection.readEnd() == "answer without body")
    }

    @Test
    func `One that is not there as a whole is passed on, and so are those behind it until it is answered`() {
        #expect(connection.readHead() == "nothing")
        #expect(connection.readBody() == "nothing")
        #expect(connection.giveUp() == 2)
        #expect(connection.giveUp() == 0)
        #expect(connection.readBody() == "pass 1")
        #expect(connection.readEnd() == "pass 1")
        #expect(connection.readWhole() == ["pass 1", "pass 1", "pass 1"])
        connection.passedOnAnswered()
        #expect(connection.readWhole() == ["pass 1", "pass 1", "pass 1"])
        connection.passedOnAnswered()
        connection.passedOnAnswered()
        #expect(connection.readWhole() == ["nothing", "nothing", "answer"])
    }

    @Test
    func `A body in several parts, and fields behind it, are passed on`() {
        #expect(connection.readHead() == "nothing")
        #expect(connection.readBody() == "nothing")
        #expect(connection.readBody() == "pass 3")
        #expect(connection.readEnd() == "pass 1")
        connection.passedOnAnswered()
        #expect(connection.readHead() == "nothing")
        #expect(connection.readEnd([.date: "now"]) == "pass 2")
    }

    @Test
    func `One that its route leaves alone counts as passed on`() {
        #expect(connection.readWhole() == ["nothing", "nothing", "answer"])
        connection.refuse()
        #expect(connection.readHead() == "pass 1")
    }

    @Test
    func `What comes behind one that is answered directly waits`() {
        #expect(connection.readWhole() == ["nothing", "nothing", "answer"])
        #expect(connection.readHead() == "nothing")
        #expect(connection.holds(.error(CancellationError())))
        #expect(connection.holds(.inputClosed))
        #expect(connection.giveUp() == 0)
        #expect(connection.answered() == ["head", "error", "input closed"])
        #expect(!connection.holds(.inputClosed))
    }
}
