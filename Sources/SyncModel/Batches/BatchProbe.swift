public import FoundationEssentials

/// A harmless batch that shows whether an upstream takes batches: its parts only read.
public struct BatchProbe: Sendable {
    /// What the answer to the batch shows.
    public struct Finding: Sendable, Hashable {
        /// Nil if the answer does not show it.
        public let isSupported: Bool?
        /// The reason, for operators.
        @Exact public var detail: String
    }

    private static let parts = 2

    private let batch: BatchRequest

    /// - Parameter path: the path that each part reads.
    public init(organization: UUID, path: String, timeout: Duration) {
        let parts = (0..<Self.parts).map { _ in
            UpstreamRequest(
                organization: organization,
                user: Writer.elsewhere.user,
                method: "GET",
                path: path,
                body: nil,
                idempotencyKey: UUID(),
                timeout: timeout
            )
        }
        batch = BatchRequest(parts)
    }

    public var body: [UInt8] { batch.body }

    public func finding(of answer: FetchAnswer) -> Finding {
        guard case .response(let fetched) = answer else {
            return Finding(isSupported: nil, detail: "the upstream did not answer the batch")
        }
        let response = UpstreamResponse(status: fetched.status, json: fetched.body)
        let status = "it answered \(fetched.status)"
        switch BatchAnswer(.response(response), to: batch, now: Timestamp(microseconds: 0)) {
        case .unsupported where [402, 403].contains(fetched.status), .split where fetched.status != 413:
            return Finding(isSupported: nil, detail: "\(status) to the batch, which does not show it")
        case .unsupported, .split:
            return Finding(isSupported: false, detail: Self.unsupported(status, fetched.body))
        case .parts(let answers):
            guard (200...299).contains(fetched.status) else {
                return Finding(isSupported: nil, detail: "\(status) to the batch, which does not show it")
            }
            let isWhole = answers.allSatisfy { if case .response = $0 { true } else { false } }
            if isWhole {
                let detail = "the upstream supports batches: \(status) with a response for each part"
                return Finding(isSupported: true, detail: detail)
            }
            let detail = Self.unsupported("\(status) without a response for each part", fetched.body)
            return Finding(isSupported: false, detail: detail)
        }
    }

    private static func unsupported(_ status: String, _ body: [UInt8]?) -> String {
        let excerpt = body.map { PrintableExcerpt.of($0) } ?? ""
        return "the upstream does not support batches: \(status)" + (excerpt.isEmpty ? "" : ", beginning \(excerpt)")
    }
}
