public import FoundationEssentials
public import JSONText

/// The body of a push.
///
/// The envelope of the body is valid. Each entry has either a valid mutation, or the errors of an invalid mutation.
public struct PushRequest: Sendable {
    /// The device that pushes.
    public let deviceID: UUID
    /// The watermark that the client expects; nil if the client sent none.
    public let afterSequence: Int64?
    /// The entries, in request order.
    public let entries: [PushEntry]
    /// The size of the body in bytes. Memory of this size is reserved while the push waits.
    public let bodyBytes: Int

    /// - Throws: `invalid_json` for invalid JSON, `invalid_request` for an invalid envelope, `payload_too_large` above
    ///   the limits. Each error refuses the whole push.
    public init(body: [UInt8], limits: IntakeLimits) throws(Problem) {
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: body, limits: JSONLimits(maximumBytes: limits.bodyBytes))
        } catch {
            throw Problem(jsonError: error, limit: limits.bodyBytes)
        }
        let envelope = try Envelope(tree.root)
        guard envelope.mutations.count <= limits.mutations else {
            let detail = "a push may contain \(limits.mutations) mutations; this one has \(envelope.mutations.count)"
            throw Problem(.payloadTooLarge, detail + "; send them in several pushes")
        }
        let hasDefects = tree.root.hasDefects
        deviceID = envelope.deviceID
        afterSequence = envelope.afterSequence
        var allowance = ErrorAllowance()
        entries = envelope.mutations.enumerated().map { index, value in
            let entry = MutationDecoder.decode(
                value,
                index: index,
                device: envelope.deviceID,
                limits: limits,
                hasDefects: hasDefects,
                errorLimit: allowance.nextEntry
            )
            allowance.count(entry.refusal?.errors.count ?? 0)
            return entry
        }
        bodyBytes = body.count
    }
}

/// The members of the body, except the mutations.
private struct Envelope {
    let deviceID: UUID
    let afterSequence: Int64?
    let mutations: [JSONValue]

    init(_ root: JSONValue) throws(Problem) {
        guard let members = root.members else {
            throw Problem(.invalidRequest, pointer: "", rule: Rule.memberType, "the body must be a JSON object")
        }
        var device: JSONValue?
        var after: JSONValue?
        var list: JSONValue?
        for (name, value) in members {
            if name.equals("device_id") {
                try Self.take(value, as: &device, "device_id")
            } else if name.equals("after_sequence") {
                try Self.take(value, as: &after, "after_sequence")
            } else if name.equals("mutations") {
                try Self.take(value, as: &list, "mutations")
            } else {
                let pointer = JSONPointer.member(name.string)
                let what = "a push: device_id, after_sequence, mutations"
                let detail = UnknownMember.detail(name.string, of: what)
                throw Problem(.invalidRequest, pointer: pointer, rule: Rule.unknownMember, detail)
            }
        }
        guard let device, !device.isNull else {
            throw Problem(.invalidRequest, pointer: "/device_id", rule: Rule.required, "device_id is required")
        }
        guard let deviceID = device.uuid else {
            throw Problem(.invalidRequest, pointer: "/device_id", rule: Rule.uuid, "device_id must be a UUID")
        }
        self.deviceID = deviceID
        if let after, !after.isNull {
            guard let number = after.int64, number >= 0 else {
                let detail = "after_sequence must be an integer, 0 or more"
                throw Problem(.invalidRequest, pointer: "/after_sequence", rule: Rule.range, detail)
            }
            afterSequence = number
        } else {
            afterSequence = nil
        }
        guard let list else {
            throw Problem(.invalidRequest, pointer: "/mutations", rule: Rule.required, "mutations is required")
        }
        guard let elements = list.elements else {
            throw Problem(.invalidRequest, pointer: "/mutations", rule: Rule.memberType, "mutations must be an array")
        }
        mutations = Array(elements)
    }

    private static func take(_ value: JSONValue, as member: inout JSONValue?, _ name: String) throws(Problem) {
        guard member == nil else {
            let detail = "'\(name)' occurs twice"
            throw Problem(.invalidRequest, pointer: "/\(name)", rule: Rule.duplicateMember, detail)
        }
        member = value
    }
}

extension Problem {
    /// The problem of a text that is too large or is not valid JSON.
    public init(jsonError error: JSONParseError, limit: Int) {
        switch error.kind {
        case .tooLong, .tooManyNodes:
            self.init(.payloadTooLarge, "\(error.explanation); at most \(limit) bytes are allowed")
        default:
            self.init(.invalidJSON, error.explanation)
        }
    }
}

/// One entry of a push, which has a valid mutation or the entry's errors.
///
/// The type is a class for the same reason as ``Mutation``: entries are passed often and never change.
public final class PushEntry: Sendable {
    /// The index in the request.
    public let index: Int
    // the following members are set if they could be read, even if the entry is invalid
    /// The mutation's id; nil if it is not a UUID.
    public let id: UUID?
    /// The idempotency key; nil if it is not a UUID.
    public let idempotencyKey: UUID?
    /// The sequence number; nil if it is not an integer of at least 1.
    public let sequenceNumber: Int64?
    /// The entity that an invalid entry would have created.
    ///
    /// Entries that refer to this entity are refused as well.
    let attemptedCreate: ClientReference?
    /// The entry's content, even if the content is invalid; nil if the content cannot be read.
    ///
    /// The content of a refused entry is needed because the entry can repeat a mutation that was accepted under other
    /// limits or rules (product rule 5).
    public let content: Mutation?
    /// The problem `validation_failed` with all errors; nil if the entry is valid.
    public let refusal: Problem?

    init(
        index: Int,
        id: UUID?,
        idempotencyKey: UUID?,
        sequenceNumber: Int64?,
        attemptedCreate: ClientReference?,
        content: Mutation?,
        refusal: Problem?
    ) {
        self.index = index
        self.id = id
        self.idempotencyKey = idempotencyKey
        self.sequenceNumber = sequenceNumber
        self.attemptedCreate = attemptedCreate
        self.content = content
        self.refusal = refusal
    }

    public var mutation: Mutation? { refusal == nil ? content : nil }
}
