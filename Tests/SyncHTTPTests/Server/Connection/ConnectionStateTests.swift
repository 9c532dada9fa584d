import NIOCore
import Testing

@testable import SyncHTTP

@Suite("The bounds of a connection")
struct ConnectionStateTests {
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

    private func state() -> ConnectionState {
        ConnectionState(bodyTimeout: .seconds(30), writeTimeout: .seconds(60), shutdownTimeout: .seconds(5))
    }

    @Test
    func `a complete request needs no timer`() {
        var state = state()
        state.readHead(closes: false, at: start)
        state.readEnd()
        #expect(state.deadline == nil)
        let announces = state.writeHead()
        #expect(!announces)
        #expect(state.writeEnd(at: start) == .keep)
    }

    @Test
    func `rejects a late body and closes the connection`() {
        var state = state()
        state.readHead(closes: false, at: start)
        #expect(state.timerFired(at: start + .seconds(29)) == .wait(until: start + .seconds(30)))
        #expect(state.timerFired(at: start + .seconds(30)) == .refuseBody)
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .closeAfterLingering)
    }

    @Test
    func `a body that is cut off ends the connection only while it arrives`() {
        var state = state()
        let isCutBefore = state.cutBody()
        #expect(!isCutBefore)
        state.readHead(closes: false, at: start)
        let isCut = state.cutBody()
        #expect(isCut)
        let isCutAgain = state.cutBody()
        #expect(!isCutAgain)
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .closeAfterLingering)
        var whole = self.state()
        whole.readHead(closes: false, at: start)
        whole.readEnd()
        let isWholeCut = whole.cutBody()
        #expect(!isWholeCut)
    }

    @Test
    func `an answer to a body that is still arriving ends the connection`() {
        var state = state()
        state.readHead(closes: false, at: start)
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .closeAfterLingering)
    }

    @Test
    func `closes the connection at the client's request`() {
        var state = state()
        state.readHead(closes: true, at: start)
        state.readEnd()
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .close)
    }

    @Test
    func `disconnects a client that does not read`() {
        var state = state()
        state.becameWritable(false, at: start)
        #expect(state.deadline == start + .seconds(60))
        #expect(state.timerFired(at: start + .seconds(60)) == .close)
    }

    @Test
    func `a slow client stays connected only while it makes progress`() {
        var state = ConnectionState(
            bodyTimeout: .seconds(30),
            writeTimeout: .seconds(60),
            shutdownTimeout: .seconds(5),
            leastProgress: 1_000
        )
        state.becameWritable(false, unsent: 10_000, at: start)
        #expect(state.timerFired(at: start + .seconds(60), unsent: 9_000) == .wait(until: start + .seconds(120)))
        #expect(state.timerFired(at: start + .seconds(120), unsent: 8_001) == .close)
        state.shutDown(at: start + .seconds(120))
        #expect(state.timerFired(at: start + .seconds(125), unsent: 0) == .close)
    }

    @Test
    func `a client that reads again stays connected`() {
        var state = state()
        state.becameWritable(false, at: start)
        state.becameWritable(true, at: start + .seconds(1))
        #expect(state.timerFired(at: start + .seconds(60)) == .nothing)
    }

    @Test
    func `an ending connection keeps its time-out and accepts no requests`() {
        var state = state()
        state.end(unsent: 500, at: start)
        state.becameWritable(true, at: start + .seconds(1))
        #expect(state.deadline == start + .seconds(61))
        state.readHead(closes: false, at: start + .seconds(2))
        #expect(!state.takesParts)
        #expect(state.timerFired(at: start + .seconds(61), unsent: 500) == .close)
    }

    @Test
    func `does not read further pipelined requests`() {
        var state = state()
        for _ in 0..<2 {
            #expect(state.mayRead)
            state.readHead(closes: false, at: start)
            state.readEnd()
        }
        #expect(!state.mayRead)
        _ = state.writeHead()
        #expect(state.writeEnd(at: start) == .keep)
        #expect(state.mayRead)
    }

    @Test
    func `only the answer to the last request can end the connection`() {
        for (closes, arrives) in [(true, true), (false, false)] {
            var state = state()
            state.readHead(closes: false, at: start)
            state.readEnd()
            state.readHead(closes: closes, at: start)
            if arrives { state.readEnd() }
            let announces = state.writeHead()
            #expect(!announces)
            #expect(state.writeEnd(at: start) == .keep)
            let announcesLast = state.writeHead()
            #expect(announcesLast)
            #expect(state.writeEnd(at: start) == (arrives ? .close : .closeAfterLingering))
        }
    }

    @Test
    func `drops requests after the last one`() {
        var state = state()
        state.readHead(closes: true, at: start)
        state.readEnd()
        #expect(state.takesParts)
        state.readHead(closes: false, at: start)
        state.readEnd()
        #expect(!state.takesParts)
        #expect(state.openRequests == 1)
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .close)
    }

    @Test
    func `reads the rest of a body after its answer, and no other request`() {
        var state = state()
        state.readHead(closes: false, at: start)
        _ = state.writeHead()
        #expect(state.writeEnd(at: start) == .closeAfterLingering)
        #expect(state.takesParts)
        state.readEnd()
        state.readHead(closes: false, at: start)
        #expect(!state.takesParts)
    }

    @Test
    func `the body time-out does not run while reading is paused`() {
        var state = state()
        state.readHead(closes: false, at: start)
        state.readEnd()
        state.readHead(closes: false, at: start)
        #expect(state.deadline == nil)
        #expect(state.timerFired(at: start + .seconds(60)) == .nothing)
        _ = state.writeHead()
        #expect(state.writeEnd(at: start + .seconds(60)) == .keep)
        #expect(state.timerFired(at: start + .seconds(89)) == .wait(until: start + .seconds(90)))
        #expect(state.timerFired(at: start + .seconds(90)) == .refuseBody)
    }

    @Test
    func `a shutdown answers accepted requests and accepts no others`() {
        var state = state()
        for _ in 0..<2 {
            state.readHead(closes: false, at: start)
            state.readEnd()
        }
        state.shutDown(at: start)
        #expect(!state.mayRead)
        let announces = state.writeHead()
        #expect(!announces)
        #expect(state.writeEnd(at: start) == .keep)
        #expect(!state.mayRead)
        let announcesLast = state.writeHead()
        #expect(announcesLast)
        #expect(state.writeEnd(at: start) == .close)
    }

    @Test
    func `a shutdown reads a body to its end`() {
        var state = state()
        state.readHead(closes: false, at: start)
        state.shutDown(at: start)
        #expect(state.mayRead)
        state.readEnd()
        #expect(!state.mayRead)
    }

    @Test
    func `a shutdown shortens the time-outs of current requests`() {
        var state = state()
        state.readHead(closes: false, at: start)
        state.shutDown(at: start + .seconds(1))
        #expect(state.deadline == start + .seconds(6))
        state.readEnd()
        let announces = state.writeHead()
        #expect(announces)
        #expect(state.writeEnd(at: start) == .close)
    }
}
