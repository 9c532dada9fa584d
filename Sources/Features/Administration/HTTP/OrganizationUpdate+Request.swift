import JSONText
import SyncHTTP
package import SyncModel
import SyncStore

extension OrganizationUpdate {
    /// Reads the body of `PUT /admin/organizations/{id}`.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    package init(body: [UInt8]) throws(Problem) {
        var update = OrganizationUpdate()
        try RequestReport.read(body, of: "an organization: name, status, settings, external_ids") {
            report,
            member,
            value in
            switch member {
            case "name":
                let text = value.string.flatMap { text in
                    (1...200).contains(text.unicodeScalars.count) && !text.contains("\0") ? text : nil
                }
                update.name = report.value(text, at: "/name", "name must have 1 to 200 characters")
            case "status":
                let status = value.string.flatMap(OrganizationStatus.init(rawValue:))
                update.status = report.value(
                    status == .purging ? nil : status,
                    at: "/status",
                    "status must be active or suspended; DELETE purges"
                )
            case "settings":
                report.problems += OrganizationSettings.problems(in: value, pointer: "/settings")
                update.settings = Array(value.raw)
                update.wantsUserKeys = value["user_keys"]?.bool == true
            case "external_ids": update.externalIDs = report.externalIDs(value)
            default: return false
            }
            return true
        }
        self = update
    }
}
