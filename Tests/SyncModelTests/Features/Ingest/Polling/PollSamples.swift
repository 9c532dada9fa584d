import Foundation
import JSONText
import Testing

@testable import IngestFeature
@testable import SyncModel

/// Pollers' settings, and answers to their requests.
enum PollSamples {
    static let organization = UUID()
    static let now = Timestamp(microseconds: 1_795_000_000_000_000)
    static let rule = """
        {"entity_type": "contact", "operation": {"at": "/deleted", "values": {"true": "delete"}, "otherwise": "upsert"},
         "id": "/id", "version": "/version", "occurred_at": "/updated_at", "document": "/document"}
        """
    static let since = #""updated_since": {"parameter": "since", "form": "rfc3339", "from": "/updated_at"}"#

    /// - Parameter members: further members of the settings.
    static func settings(_ members: String = since, path: String = "/contacts", rule: String = rule) throws
        -> PollerSettings
    {
        let more = members.isEmpty ? "" : "," + members
        let text = #"{"path": "\#(path)", "mapping": {"rules": [\#(rule)]}\#(more)}"#
        var report = MemberReport()
        let value = try JSONTree(parsing: Array(text.utf8)).root
        let settings = PollerSettings(value, at: "", &report)
        return try #require(settings, "\(report.problems)")
    }

    static func planner(_ members: String = since, path: String = "/contacts", base: String = "https://api.example/v1")
        throws -> PollPlanner
    {
        PollPlanner(try settings(members, path: path), base: try BaseURL(base), limits: IntakeLimits())
    }

    static func item(_ id: Int, version: Int64 = 1, at moment: Timestamp = now, isDeleted: Bool = false) -> String {
        let document = isDeleted ? "" : #","document":{"id":\#(id),"v":\#(version)}"#
        return
            #"{"id":\#(id),"version":\#(version),"updated_at":"\#(moment.rfc3339)","deleted":\#(isDeleted)\#(document)}"#
    }

    static func answer(
        _ body: String,
        status: Int = 200,
        etag: String? = nil,
        links: [String] = []
    ) -> FetchedResponse {
        FetchedResponse(
            status: status,
            contentType: "application/json",
            etag: etag,
            links: links,
            body: Array(body.utf8)
        )
    }
}

extension PollPlanner {
    func request(_ state: PollState) -> UpstreamFetch {
        request(state, of: PollSamples.organization, timeout: .seconds(30))
    }

    /// The result of an answer if all of its events are applied.
    func step(_ response: FetchedResponse, _ state: PollState, _ tally: PollTally = PollTally()) throws -> Step {
        let reading = reading(response, to: request(state), in: state)
        guard case .page(let page) = reading else {
            throw Unexpected(description: "\(reading)")
        }
        return self.state(after: page, tally, in: state, askedAt: PollSamples.now, now: PollSamples.now)
    }

    func failure(_ response: FetchedResponse, _ state: PollState = PollState()) throws -> PollFailure {
        let reading = reading(response, to: request(state), in: state)
        guard case .failed(let failure) = reading else { throw Unexpected(description: "\(reading)") }
        return failure
    }
}

struct Unexpected: Error, CustomStringConvertible {
    let description: String
}

extension PollPlanner.Step {
    var more: PollState? { if case .more(let state) = self { state } else { nil } }
    var done: PollState? { if case .done(let state) = self { state } else { nil } }
    var failure: PollFailure? { if case .failed(let failure) = self { failure } else { nil } }
}
