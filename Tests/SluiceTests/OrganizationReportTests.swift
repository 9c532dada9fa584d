import Foundation
import SyncModel
import Testing

@testable import Sluice
@testable import SyncStore

@Suite struct OrganizationReportTests {
    private static let now = Timestamp(microseconds: 1_795_000_000_000_000)

    private func stats(_ ages: [Double?], halted: Int = 1) -> [LaneStore.OrganizationStats] {
        ages.enumerated().map { index, age in
            LaneStore.OrganizationStats(
                organization: UUID(uuidString: "00000000-0000-4000-8000-00000000000\(index)") ?? UUID(),
                halted: halted,
                oldest: age.map { Self.now.adding(seconds: -$0) }
            )
        }
    }

    private func rows(_ ages: [Double?], limit: Int, halted: Int) -> [String] {
        OrganizationReport(stats(ages), limit: limit, halted: halted, now: Self.now).rows
            .map { "\($0.organization.suffix(5)) \($0.seconds) \($0.halted)" }
    }

    @Test func `names at most the allowed number of organizations and sums up the others`() {
        #expect(rows([90, 60, 30], limit: 2, halted: 7) == ["00000 90.0 1", "00001 60.0 1", "other 30.0 5"])
        #expect(rows([90, 60], limit: 2, halted: 7) == ["00000 90.0 1", "00001 60.0 1"])
        #expect(rows([], limit: 2, halted: 0) == [])
    }

    @Test func `names the organizations with the most requests in flight, and always has a row for the others`() {
        let counts = stats([1, 1, 1]).map(\.organization)
        let report = RequestReport([counts[0]: 2, counts[1]: 9, counts[2]: 2], limit: 2)
        #expect(report.rows.map { "\($0.organization.suffix(5)) \($0.count)" } == ["00001 9", "00000 2", "other 2"])
        #expect(RequestReport([:], limit: 2).rows.map { "\($0.organization) \($0.count)" } == ["other 0"])
    }

    @Test func `reports an age of zero without waiting mutations, and no negative numbers`() {
        #expect(rows([nil, -5], limit: 1, halted: 0) == ["00000 0.0 1", "other 0.0 0"])
    }
}
