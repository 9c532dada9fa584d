/// A set of members in one word.
struct MutationMembers {
    private var bits: UInt32 = 0

    mutating func insert(_ member: MutationMember) { bits |= 1 << member.rawValue }
    func contains(_ member: MutationMember) -> Bool { bits & 1 << member.rawValue != 0 }
}
