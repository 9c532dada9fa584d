public import JSONText

extension ChannelRules {
    /// Reads the stored forms, which were checked when they were set.
    public init(storedChannels: JSONValue, storedGrants: JSONValue) {
        channels = Self.templates(storedChannels)
        grants = (storedGrants.elements.map(Array.init) ?? []).compactMap { grant in
            guard let user = grant["user"]?.string, let role = grant["role"]?.string.flatMap(ChannelRole.init) else {
                return nil
            }
            return ContentGrant(user: user, channels: grant["channels"].map(Self.templates) ?? [], role: role)
        }
    }

    private static func templates(_ value: JSONValue) -> [ChannelTemplate] {
        (value.elements.map(Array.init) ?? []).compactMap { $0.string.flatMap { try? ChannelTemplate($0) } }
    }

    /// The templates as JSON, for storage and answers.
    public func writeChannels(to writer: inout JSONWriter) {
        Self.write(channels, to: &writer)
    }

    public func writeGrants(to writer: inout JSONWriter) {
        writer.beginArray()
        for grant in grants {
            writer.beginObject()
            writer.member("user", grant.user)
            writer.name("channels")
            Self.write(grant.channels, to: &writer)
            writer.member("role", grant.role.rawValue)
            writer.endObject()
        }
        writer.endArray()
    }

    private static func write(_ templates: [ChannelTemplate], to writer: inout JSONWriter) {
        writer.beginArray()
        for template in templates { writer.string(template.text) }
        writer.endArray()
    }
}

// MARK: - Reading a request

extension ChannelRules {
    /// Reads the member `channels` of an entity type.
    public static func readChannels(_ value: JSONValue) -> (channels: [ChannelTemplate], problems: [ProblemDetail]) {
        read(value, at: JSONPointer("/channels"), limit: maximumTemplates)
    }

    /// Reads the member `grants` of an entity type.
    public static func readGrants(_ value: JSONValue) -> (grants: [ContentGrant], problems: [ProblemDetail]) {
        let pointer = JSONPointer("/grants")
        guard let elements = value.elements.map(Array.init), elements.count <= maximumGrants else {
            let detail = "grants must be an array of at most \(maximumGrants) objects with user, channels and role"
            return ([], [ProblemDetail(pointer: pointer.text, rule: Rule.memberType, detail: detail)])
        }
        var (grants, problems): ([ContentGrant], [ProblemDetail]) = ([], [])
        for (index, element) in elements.enumerated() {
            let place = pointer.appending(index: index)
            func wrong(_ member: String?, _ rule: String, _ detail: String) {
                let pointer = member.map { place.appending(member: $0) } ?? place
                problems.append(ProblemDetail(pointer: pointer.text, rule: rule, detail: detail))
            }
            guard let members = element.members else {
                wrong(nil, Rule.memberType, "a grant must be an object with user, channels and role")
                continue
            }
            for (name, _) in members where !["user", "channels", "role"].contains(name.string) {
                wrong(name.string, Rule.unknownMember, "a grant has the members user, channels and role")
            }
            let user = element["user"]?.string
            if user.map({ $0.isEmpty || !JSONPointer.isValid($0) }) ?? true {
                wrong("user", Rule.range, "user must be a JSON Pointer to the id of a user, such as /assignee_id")
            }
            let role = element["role"]?.string.flatMap(ChannelRole.init)
            if role == nil { wrong("role", Rule.range, "role must be read or write") }
            var templates: [ChannelTemplate] = []
            if let channels = element["channels"] {
                let read = read(channels, at: place.appending(member: "channels"), limit: maximumTemplates)
                templates = read.channels
                problems += read.problems
                if templates.isEmpty, read.problems.isEmpty {
                    wrong("channels", Rule.range, "channels must name at least one channel")
                }
            } else {
                wrong("channels", Rule.required, "channels is required")
            }
            if let user, let role { grants.append(ContentGrant(user: user, channels: templates, role: role)) }
        }
        return (grants, problems)
    }

    private static func read(
        _ value: JSONValue,
        at pointer: JSONPointer,
        limit: Int
    ) -> (channels: [ChannelTemplate], problems: [ProblemDetail]) {
        guard let elements = value.elements.map(Array.init), elements.count <= limit else {
            let detail = "channels must be an array of at most \(limit) templates, such as \"visit/{id}\""
            return ([], [ProblemDetail(pointer: pointer.text, rule: Rule.memberType, detail: detail)])
        }
        var (templates, problems): ([ChannelTemplate], [ProblemDetail]) = ([], [])
        for (index, element) in elements.enumerated() {
            let place = pointer.appending(index: index).text
            guard let text = element.string else {
                problems.append(ProblemDetail(pointer: place, rule: Rule.memberType, detail: "a template is a text"))
                continue
            }
            do throws(ChannelTemplate.Malformed) {
                templates.append(try ChannelTemplate(text))
            } catch {
                problems.append(ProblemDetail(pointer: place, rule: Rule.channelName, detail: error.detail))
            }
        }
        return (templates, problems)
    }
}

extension EntityType {
    /// Why the type's visibility does not fit its channels and grants; nil if it does.
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
        return nil
    }
}
