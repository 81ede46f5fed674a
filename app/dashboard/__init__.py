"""The dashboard: read-only pages, and a JSON API.

All displayed text is untrusted (from repositories, models or GitHub): the templates pass it through `safe_text.Sanitizer`. This
package must not know about webhooks, queues or repairs.
"""
