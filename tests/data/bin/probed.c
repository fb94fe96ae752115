/* What tests/data/bin/probed.so was made of: gcc -g -O1 -shared -nostdlib -fPIC -ffile-prefix-map=$PWD=. -o probed.so probed.c */
struct inner { short len; const char *data; };
struct message { unsigned kind; struct { int flags; }; struct inner inner; struct message *next; };
enum color { RED, GREEN };
typedef unsigned long size_type;
int send_message(size_type number, double share, const struct message *message, int count, enum color color)
{
	return number + (long)share + message->kind + message->inner.len + count + color;
}
float average(float a, float b) { return (a + b) / 2; }
int by_value(struct inner inner, int after) { return inner.len + after; }
static const char *name_of(const char *filename) { return filename + 1; }
const char *call_name(const char *filename) { return name_of(filename); }
