public import JSONText

// The JSON of templates and grants in requests, in storage and in responses.

extension ChannelTemplate: JSONWritable {
    public func write(to writer: inout JSONWriter) { writer.string(text) }
}

extension ContentGrant: TableObject {
    package init() { self.init(user: "", channels: [], role: .read) }

    public func write(to writer: inout JSONWriter) { writer.object(writeMembers) }

    package static let table = MemberTable<Self, Self>("a grant") {
        BodyMember("user", .userPointer, as: \.user).required()
        BodyMember("issuer", .issuer, into: \.issuer).shown(\.issuer?.string).omitted { $0.issuer == nil }
        BodyMember("channels", .channelTemplates, as: \.channels).required()
        BodyMember("role", .choice(), into: \.role).required().shown(\.role.rawValue)
    } check: { grant, object, report in
        guard object.isValid, grant.channels.isEmpty else { return }
        report.refuse(object.pointer + "/channels", Rule.range, "channels must name at least one channel")
    }
}

extension MemberKind<String> {
    fileprivate static var userPointer: Self {
        text("must be a JSON Pointer to the id of a user, such as /assignee_id") {
            !$0.isEmpty && JSONPointer.isValid($0)
        }
    }
}

extension MemberKind<ByteExactString> {
    /// The name of an issuer. The empty text represents the issuer without a name.
    fileprivate static var issuer: Self {
        let form = "must be a text of up to \(ExternalName.maximumIssuerBytes) bytes without control characters"
        return Self(form) { $0.string.flatMap { ExternalName.isValidIssuer($0) ? ByteExactString($0) : nil } }
    }
}

extension MemberKind<[ChannelTemplate]> {
    package static var channelTemplates: Self {
        Self { value, place, report in
            let limit = ChannelRules.maximumTemplates
            guard let elements = value.elements?.prefix(limit + 1).map({ $0 }), elements.count <= limit else {
                let detail = "\(place.name) must be an array of at most \(limit) templates, such as \"visit/{id}\""
                report.refuse(place.pointer, Rule.memberType, detail)
                return nil
            }
            return elements.enumerated().compactMap { index, element in
                let pointer = "\(place.pointer)/\(index)"
                guard let text = element.string else {
                    report.refuse(pointer, Rule.memberType, "a template must be a text")
                    return nil
                }
                do throws(ChannelTemplate.Malformed) {
                    return try ChannelTemplate(text)
                } catch {
                    report.refuse(pointer, Rule.channelName, error.detail)
                    return nil
                }
            }
        }
    }
}

extension MemberKind<[ContentGrant]> {
    package static var contentGrants: Self {
        Self { value, place, report in
            let limit = ChannelRules.maximumGrants
            guard let elements = value.elements?.prefix(limit + 1).map({ $0 }), elements.count <= limit else {
                let detail = "grants must be an array of at most \(limit) objects with user, channels and role"
                report.refuse(place.pointer, Rule.memberType, detail)
                return nil
            }
            return elements.enumerated().compactMap { ContentGrant($1, at: "\(place.pointer)/\($0)", &report) }
        }
    }
}

extension ChannelRules {
    /// Whether any grant has an issuer, and identifies its user by a subject instead of the user's id.
    public var grantsToSubjects: Bool { grants.contains { $0.issuer != nil } }

    /// Reads the stored forms, which were validated before they were stored.
    package init(storedChannels: JSONValue, storedGrants: JSONValue) {
        var report = MemberReport()
        channels = MemberKind.channelTemplates.read(storedChannels, at: "/channels", &report) ?? []
        grants = MemberKind.contentGrants.read(storedGrants, at: "/grants", &report) ?? []
    }
}

extension EntityType {
    /// Whether the type's entities grant channels to users, and identify a user by an issuer and a subject.
    public var grantsToSubjects: Bool { makesGrants && channels.grantsToSubjects }

    /// Whether the type's entities must be evaluated again after the type's settings change to `next`.
    public func needsEvaluation(as next: EntityType) -> Bool {
        isInUse && (visibility == .channels || next.visibility == .channels)
            && (visibility != next.visibility || channels != next.channels)
    }

    /// Whether the change from this type to `next` shows existing entities to other users, or hides them, although
    /// neither type has channels. Such a change makes all cursors of the organization invalid, because only a pull from
    /// the beginning gives devices the entities that they must show or remove.
    public func expiresCursors(as next: EntityType) -> Bool {
        isInUse && visibility != next.visibility && visibility != .channels && next.visibility != .channels
    }

    /// Whether the change from this type with channels to `next` makes all cursors invalid unless all entities were
    /// evaluated: devices have the entities that an earlier visibility showed, and the evaluation under `next` does not
    /// know these devices.
    public func expiresCursorsUnlessEvaluated(as next: EntityType) -> Bool {
        guard isInUse, visibility == .channels, next.visibility != .channels else { return false }
        return formerVisibility.map { $0 != next.visibility } ?? false
    }

    /// The reason why the type's visibility and its channels and grants do not fit together; nil if they fit.
    public var channelProblem: ProblemDetail? {
        if visibility == .channels, channels.channels.isEmpty {
            let detail = "visibility is channels, so channels must have at least one template"
            return ProblemDetail(pointer: "/channels", rule: Rule.required, detail: detail)
        }
        if visibility != .channels, !channels.channels.isEmpty {
            let detail = "channels are used only with visibility: \"channels\""
            return ProblemDetail(pointer: "/visibility", rule: Rule.range, detail: detail)
        }
        if visibility != .channels, !channels.grants.isEmpty {
            let detail = "grants need visibility: \"channels\", else all users could grant themselves any channel"
            return ProblemDetail(pointer: "/grants", rule: Rule.range, detail: detail)
        }
        return isCheckedBeforeSending ? problemOfCheck : nil
    }

    /// The reason why the gateway cannot check the right to write before it sends a request; nil if it can.
    private var problemOfCheck: ProblemDetail? {
        if idSpace == .shared {
            let detail =
                "check_channels needs the id space 'mapped' or 'device': a create with a chosen id could overwrite an "
                + "entity that its user may not write"
            return ProblemDetail(pointer: "/check_channels", rule: Rule.range, detail: detail)
        }
        guard routes == nil else { return nil }
        let detail = "check_channels needs routes, because a mutation's own endpoint could be that of another entity"
        return ProblemDetail(pointer: "/check_channels", rule: Rule.required, detail: detail)
    }
}
