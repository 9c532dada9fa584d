import Testing

@testable import Postgres

@Suite struct PipelineProgressTests {
    @Test func `each result belongs to its statement`() {
        var progress = PipelineProgress([.prepare(0), .execute(0), .execute(1)])
        #expect(progress.received(.success) == .prepared(0))
        #expect(progress.received(.end) == .ignore)
        #expect(progress.received(.success) == .keep(0))
        #expect(progress.received(.end) == .ignore)
        #expect(progress.received(.success) == .keep(1))
        #expect(progress.received(.end) == .ignore)
        #expect(progress.received(.sync) == .finish)
    }

    @Test func `reports the first failure, and skips what it aborts`() {
        var progress = PipelineProgress([.execute(0), .prepare(1), .execute(1)])
        #expect(progress.received(.failure) == .fail(0))
        for _ in 0..<2 {
            #expect(progress.received(.end) == .ignore)
            #expect(progress.received(.aborted) == .ignore)
        }
        #expect(progress.received(.end) == .ignore)
        #expect(progress.received(.sync) == .finish)
    }

    @Test func `an end before the first result is ignored`() {
        var progress = PipelineProgress([.execute(0)])
        #expect(progress.received(.end) == .ignore)
        #expect(progress.received(.success) == .keep(0))
    }

    @Test func `an answer out of sequence abandons the connection`() {
        var early = PipelineProgress([.execute(0)])
        #expect(early.received(.sync) == .abandon)
        var late = PipelineProgress([])
        #expect(late.received(.success) == .abandon)
        var copy = PipelineProgress([.execute(0)])
        #expect(copy.received(.unexpected) == .abandon)
    }
}
