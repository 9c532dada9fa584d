import JSONText
import SyncModel
import SyncStore

/// Metrics of single organizations: some by name, all others as one.
struct OrganizationReport {
    struct Row: Equatable {
        /// The id, or `other`.
        let organization: String
        /// Age of the oldest mutation that is pending or in flight; 0 without any.
        let seconds: Double
        /// Lanes that wait for a person's decision.
        let halted: Int

        var labels: [(String, String)] { [("organization", organization)] }
    }

    let rows: [Row]

    /// - Parameters:
    ///   - stats: organizations, those first that have waited longest, and one more than `limit` if there are others.
    ///   - halted: lanes that are halted in all organizations.
    init(_ stats: [LaneStore.OrganizationStats], limit: Int, halted: Int, now: Timestamp) {
        func seconds(_ row: LaneStore.OrganizationStats) -> Double {
            let age = row.oldest.map { now.microseconds - $0.microseconds } ?? 0
            return Double(max(0, age)) / 1_000_000
        }
        var rows = stats.prefix(limit).map {
            Row(organization: $0.organization.lowercased, seconds: seconds($0), halted: $0.halted)
        }
        if stats.count > limit {
            // the two were counted a moment apart
            let others = max(0, halted - rows.reduce(0) { $0 + $1.halted })
            rows.append(Row(organization: "other", seconds: seconds(stats[limit]), halted: others))
        }
        self.rows = rows
    }
}
