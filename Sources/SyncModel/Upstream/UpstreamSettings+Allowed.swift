/// Which of a mutation's headers go out.
extension UpstreamSettings {
    /// Those that mutations of every organization may carry, in lower case: what is wanted of an answer, the content's
    /// language, and what must hold for the request to be carried out.
    static let alwaysAllowedHeaders: Set<String> = [
        "accept", "accept-language", "content-language", "if-match", "if-none-match", "if-unmodified-since", "prefer",
    ]

    /// The most headers that an operator may list.
    public static let maximumAllowedHeaders = 32

    /// Whether a mutation's header goes out. One of a mutation that was taken before its header was struck off the list,
    /// or before there was a list, stays here.
    func allows(_ name: String) -> Bool {
        let lowercased = name.lowercased()
        return Self.alwaysAllowedHeaders.contains(lowercased)
            || (allowedHeaders.contains(lowercased) && !HeaderField.isReserved(lowercased))
    }

    /// What is wrong with a header that an operator wants mutations to carry; reads on from "header …". Nil: nothing.
    public static func allowedHeaderProblem(_ name: String) -> String? {
        guard HeaderField.isName(name) else { return "has a name that is none (RFC 9110 token)" }
        guard name.utf8.count <= 100 else { return "has a name of more than 100 bytes" }
        if HeaderField.isReserved(name) { return "is never a mutation's to set" }
        let folded = HeaderField.folded(name)
        if folded != name.lowercased(), alwaysAllowedHeaders.contains(folded) {
            return "is another spelling of \(folded), which mutations may carry"
        }
        return nil
    }
}
