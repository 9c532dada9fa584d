// All that pages are made of, by one name.
export * from './api.js'
export * from './dom.js'
export * from './forms.js'
export * from './jsonview.js'
export * from './parts.js'
