import ArgumentParser
package import Foundation
import JSONText
package import SyncModel

/// Reads a UUID off the command line, in either case.
package func uuidArgument(_ text: String) throws -> UUID {
    guard let id = UUID(parsing: text) else {
        throw ValidationError("\"\(text)\" is not a UUID such as 0192f0c1-2345-7abc-8def-0123456789ab.")
    }
    return id
}

/// Reads a moment off the command line: an RFC 3339 date-time, or a date, which begins in UTC.
package func momentArgument(_ text: String) throws -> Timestamp {
    guard let moment = Timestamp(rfc3339: text) ?? Timestamp(rfc3339: text + "T00:00:00Z") else {
        throw ValidationError("\"\(text)\" is neither a date-time such as 2026-11-20T07:00:00Z nor a date.")
    }
    return moment
}
