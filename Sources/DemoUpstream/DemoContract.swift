/// The OpenAPI document of the demo's REST API, from which `sluice upstream import` reads its routes.
enum DemoContract {
    static let path = "/openapi.json"

    private static let collections = ["contacts", "activities", "expenses"]

    static let json = Array(
        """
        {"openapi": "3.1.0", "info": {"title": "Demo upstream", "version": "1"},
         "paths": {\(collections.map(paths).joined(separator: ", "))},
         "components": {"schemas": {"Document": {"type": "object", "properties": {"id": {"type": "integer"}}}}}}
        """.utf8
    )

    private static func paths(of collection: String) -> String {
        let content = ##""content": {"application/json": {"schema": {"$ref": "#/components/schemas/Document"}}}"##
        let done = #""responses": {"200": {"description": "The document.", \#(content)}}"#
        let made = #""responses": {"201": {"description": "The new document.", \#(content)}}"#
        let id = #"{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}"#
        return """
            "/\(collection)": {"post": {"requestBody": {\(content)}, \(made)}},
            "/\(collection)/{id}": {"parameters": [\(id)], "get": {\(done)},
              "patch": {"requestBody": {\(content)}, \(done)}, "put": {"requestBody": {\(content)}, \(done)},
              "delete": {"responses": {"204": {"description": "The document is deleted."}}}}
            """
    }
}
